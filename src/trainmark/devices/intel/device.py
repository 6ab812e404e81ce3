"""Intel's GPUs, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Intel(Device):
    vendor = "intel"
    visible = "ZE_AFFINITY_MASK"
    container = ("--device=/dev/dri", "-v", "/dev/dri/by-path:/dev/dri/by-path")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "xccl"}
    torch_device = "xpu"
    node = "trainmark.devices.intel.node"
    proven = ("recording",)
