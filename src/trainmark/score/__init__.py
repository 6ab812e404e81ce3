"""Columns → Measurements. Pure: an old run can be scored again by a newer trainmark."""
