"""Vendors as data: the variable that hides devices, container flags, the collective backend.

Figures for vendors other than `cpu` come from FlagPerf's published settings and have not been tried on the
hardware by trainmark: `verified` says so, and `trainmark doctor` shows it.
"""

from __future__ import annotations

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of


class Device(msgspec.Struct, frozen=True):
    vendor: str
    visible: str | None
    backend: dict[str, str]
    container: tuple[str, ...] = ()
    verified: bool = False
    # One file for each device, where the driver makes them so.
    files: str | None = None


def _numbered(prefix: str, *others: str) -> tuple[str, ...]:
    return (
        *(f"--device={prefix}{number}" for number in range(8)),
        *(f"--device={other}" for other in others),
    )


_ALL = (
    Device(
        "cpu",
        None,
        {"pytorch": "gloo", "mindspore": "mccl", "tensorflow": "ring", "jax": "gloo", "paddle": "gloo"},
        verified=True,
    ),
    Device(
        "nvidia",
        "CUDA_VISIBLE_DEVICES",
        dict.fromkeys(("pytorch", "mindspore", "tensorflow", "jax", "paddle"), "nccl"),
        ("--gpus", "all"),
        files="/dev/nvidia[0-9]*",
    ),
    Device("iluvatar", "CUDA_VISIBLE_DEVICES", {"pytorch": "nccl"}, ("-v", "/lib/modules:/lib/modules")),
    Device("kunlunxin", "XPU_VISIBLE_DEVICES", {"pytorch": "xccl"}, _numbered("/dev/xpu", "/dev/xpuctrl")),
    Device(
        "cambricon",
        "MLU_VISIBLE_DEVICES",
        {"pytorch": "cncl"},
        _numbered("/dev/cambricon_dev", "/dev/cambricon_ctl"),
    ),
    Device(
        "ascend",
        "ASCEND_VISIBLE_DEVICES",
        {"pytorch": "hccl", "mindspore": "hccl"},
        _numbered("/dev/davinci", "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc"),
        files="/dev/davinci[0-9]*",
    ),
    Device("mthreads", "MUSA_VISIBLE_DEVICES", {"pytorch": "mccl"}, ("--env", "MTHREADS_VISIBLE_DEVICES=all")),
    Device(
        "metax",
        "MACA_VISIBLE_DEVICES",
        {"pytorch": "mccl"},
        ("--device=/dev/infiniband", "--device=/dev/dri", "--device=/dev/mxcd", "--group-add", "video"),
    ),
    Device(
        "dcu",
        "HIP_VISIBLE_DEVICES",
        {"pytorch": "nccl"},
        ("-v", "/opt/hyhal:/opt/hyhal", "--device=/dev/kfd", "--device=/dev/dri", "--group-add", "video"),
    ),
)


class Peak(msgspec.Struct, frozen=True):
    """What a vendor says one device can do at most with dense matrices, and where and when it was read."""

    flops: float
    source: str
    date: str


# By device model, as the case names it, and number format. A row needs the vendor's own page, and the date it was read:
# a peak that is guessed makes an MFU that lies. None was at hand yet; a site says its own with `vendor_peaks:`.
PEAKS: dict[tuple[str, str], Peak] = {}
VENDORS = {device.vendor: device for device in _ALL}


def get(vendor: str, named: str, site: str) -> Device:
    """The vendor's data; `named` is what the case says, which the site may map to a vendor."""
    if vendor not in VENDORS:
        raise UserError(
            f"device `{named}` is not known{did_you_mean(vendor, VENDORS)}; it is a vendor ({one_of(VENDORS)}) or a "
            f"model that site `{site}` maps to one: `devices: {{{named}: nvidia}}`"
        )
    return VENDORS[vendor]


def dense_peak(device: str, dtype: str) -> Peak | None:
    return PEAKS.get((device, dtype))
