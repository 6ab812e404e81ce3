"""Vendors of accelerators, as FlagPerf's published settings have them: not tried on the hardware, not sampled.

`trainmark list devices` shows them as not verified.
"""

from __future__ import annotations

from trainmark.devices.protocol import Device


def _numbered(prefix: str, *others: str) -> tuple[str, ...]:
    return (
        *(f"--device={prefix}{number}" for number in range(8)),
        *(f"--device={other}" for other in others),
    )


class Nvidia(Device):
    vendor = "nvidia"
    visible = "CUDA_VISIBLE_DEVICES"
    container = ("--gpus", "all")
    backends = dict.fromkeys(("pytorch", "mindspore", "tensorflow", "jax", "paddle"), "nccl")
    files = "/dev/nvidia[0-9]*"


class Iluvatar(Device):
    vendor = "iluvatar"
    visible = "CUDA_VISIBLE_DEVICES"
    container = ("-v", "/lib/modules:/lib/modules")
    backends = {"pytorch": "nccl"}


class Kunlunxin(Device):
    vendor = "kunlunxin"
    visible = "XPU_VISIBLE_DEVICES"
    container = _numbered("/dev/xpu", "/dev/xpuctrl")
    backends = {"pytorch": "xccl"}


class Cambricon(Device):
    vendor = "cambricon"
    visible = "MLU_VISIBLE_DEVICES"
    container = _numbered("/dev/cambricon_dev", "/dev/cambricon_ctl")
    backends = {"pytorch": "cncl"}


class Ascend(Device):
    vendor = "ascend"
    visible = "ASCEND_VISIBLE_DEVICES"
    container = _numbered("/dev/davinci", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
    backends = {"pytorch": "hccl", "mindspore": "hccl"}
    files = "/dev/davinci[0-9]*"


class Mthreads(Device):
    vendor = "mthreads"
    visible = "MUSA_VISIBLE_DEVICES"
    container = ("--env", "MTHREADS_VISIBLE_DEVICES=all")
    backends = {"pytorch": "mccl"}


class Metax(Device):
    vendor = "metax"
    visible = "MACA_VISIBLE_DEVICES"
    container = ("--device=/dev/infiniband", "--device=/dev/dri", "--device=/dev/mxcd", "--group-add", "video")
    backends = {"pytorch": "mccl"}


class Dcu(Device):
    vendor = "dcu"
    visible = "HIP_VISIBLE_DEVICES"
    container = ("-v", "/opt/hyhal:/opt/hyhal", "--device=/dev/kfd", "--device=/dev/dri", "--group-add", "video")
    backends = {"pytorch": "nccl"}
