"""Containment: whatever ranks start is gone when the round ends."""
