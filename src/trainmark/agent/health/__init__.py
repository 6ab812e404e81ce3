"""The health of a node: what its kernel and its tools say of network, devices, memory, clock, limits and mounts.

`parse` reads texts, `collect` gets them. The controller judges what comes of it (`launch/health.py`).
"""
