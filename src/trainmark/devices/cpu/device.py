"""The CPU, for planning: no variable selects it, and its collective backends are those that work on any host."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Cpu(Device):
    vendor = "cpu"
    backends = {"pytorch": "gloo", "mindspore": "mccl", "tensorflow": "ring", "jax": "gloo", "paddle": "gloo"}
    node = "trainmark.devices.cpu.node"
    proven = ("hardware",)
