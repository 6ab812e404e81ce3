"""The CPU as a device, and the host around it: `device.py` is the control half, `node.py` the node half."""
