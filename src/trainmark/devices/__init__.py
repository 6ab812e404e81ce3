"""Devices by vendor: what ranks need to use them, what they can do at most, and how a node detects and samples them.

`protocol.py` says what a device is; `cpu/` is the one that every host has. Planning, launchers and reports ask the
control half of a device; the agent imports the node half (`*/node.py`), which is standard library only.
"""
