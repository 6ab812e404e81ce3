"""Cambricon, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Cambricon(Device):
    vendor = "cambricon"
    visible = "MLU_VISIBLE_DEVICES"
    container = ("--device=/dev/cambricon_dev{n}", "--device=/dev/cambricon_ctl")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "cncl"}
    torch_device = "mlu"
    torch_module = "torch_mlu"
    files = "/dev/cambricon_dev[0-9]*"
    node = "trainmark.devices.cambricon.node"
    proven = ("recording",)
