"""Scaling studies, predictions, goodput."""
