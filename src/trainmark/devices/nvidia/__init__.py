"""NVIDIA: `device.py` is the control half. `node.py` reads NVML by ctypes (`nvml.py`), else nvidia-smi (`smi.py`)."""
