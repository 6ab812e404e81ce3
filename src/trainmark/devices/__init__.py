"""Devices: what each vendor needs to be started and seen, and how a node looks at itself.

`host.py` runs on nodes (standard library only); `catalog.py` is data for the control side.
"""
