"""Tests that ship with the product: every implementation of an extension point passes the same ones."""
