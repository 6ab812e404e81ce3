"""Hygon's DCU, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Dcu(Device):
    vendor = "dcu"
    visible = "HIP_VISIBLE_DEVICES"
    container = ("-v", "/opt/hyhal:/opt/hyhal", "--device=/dev/kfd", "--device=/dev/dri", "--group-add", "video")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "nccl"}
    torch_device = "cuda"
    node = "trainmark.devices.dcu.node"
    proven = ("recording",)
