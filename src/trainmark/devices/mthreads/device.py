"""Moore Threads, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Mthreads(Device):
    vendor = "mthreads"
    visible = "MUSA_VISIBLE_DEVICES"
    container_visible = "MTHREADS_VISIBLE_DEVICES"
    container = ("--env", "MTHREADS_VISIBLE_DEVICES=all")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "mccl"}
    torch_device = "musa"
    torch_module = "torch_musa"
    files = "/dev/mtgpu.[0-9]*"
    node = "trainmark.devices.mthreads.node"
    proven = ("recording",)
