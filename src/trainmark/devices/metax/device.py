"""MetaX, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Metax(Device):
    vendor = "metax"
    visible = "MACA_VISIBLE_DEVICES"
    container = ("--device=/dev/infiniband", "--device=/dev/dri", "--device=/dev/mxcd", "--group-add", "video")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "mccl"}
    torch_device = "cuda"
    node = "trainmark.devices.metax.node"
    proven = ("recording",)
