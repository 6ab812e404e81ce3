"""Figures of one attempt and of one case."""
