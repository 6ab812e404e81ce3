"""Apple's GPUs: detected, not sampled, and one process only."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Apple(Device):
    vendor = "apple"
    backends = {"pytorch": "gloo"}
    torch_device = "mps"
    node = "trainmark.devices.apple.node"
    proven = ()
