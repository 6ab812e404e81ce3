"""Measurements → what people and programs read: terminal text and JSON."""
