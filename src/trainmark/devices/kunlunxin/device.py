"""Kunlunxin, for planning and scoring."""

from __future__ import annotations

from trainmark.devices.protocol import Device


class Kunlunxin(Device):
    """Its PyTorch takes the place of CUDA: devices are `cuda`. The variable is that of FlagPerf's published settings;
    builds for the P800 read `CUDA_VISIBLE_DEVICES` instead, which a site can set."""

    vendor = "kunlunxin"
    visible = "XPU_VISIBLE_DEVICES"
    container = ("--device=/dev/xpu{n}", "--device=/dev/xpuctrl")
    ulimits = {"memlock": "-1"}
    backends = {"pytorch": "xccl"}
    torch_device = "cuda"
    torch_module = "torch_xmlir"
    files = "/dev/xpu[0-9]*"
    # Positions of fields are public, a whole recording is not.
    node = "trainmark.devices.kunlunxin.node"
    proven = ()
