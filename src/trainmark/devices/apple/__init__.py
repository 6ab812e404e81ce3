"""Apple's GPUs: `device.py` is the control half, `node.py` the node half."""
