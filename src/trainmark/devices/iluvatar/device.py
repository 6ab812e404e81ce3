"""Iluvatar CoreX, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Iluvatar(Device):
    vendor = "iluvatar"
    visible = "CUDA_VISIBLE_DEVICES"
    container = ("-v", "/lib/modules:/lib/modules")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "nccl"}
    torch_device = "cuda"
    files = "/dev/iluvatar[0-9]*"
    node = "trainmark.devices.iluvatar.node"
    proven = ("recording",)
