"""What a device is, and how one is found by its vendor's name.

A device has two halves. The control half is a subclass of `Device`: data for planning, launching and scoring. The node
half is a module of its own, named by `Device.node`: standard library only, Python 3.7 and later, with

- `detect() -> dict`: what there is, as JSON; what cannot be known is None. Of an accelerator: `devices`, a list with
  one record for each, which has its `model`; or only their `count`;
- `Sampler()` with `sample(rank_pids) -> dict`: what it does now; each sample is about the time since the one before;
- `UNITS`: the unit of every field of a sample.

`trainmark.testing.devices.DeviceContract` holds the tests that each device must pass.
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.plugins import Registry, guarded


class Peak(msgspec.Struct, frozen=True):
    """What a vendor says one device can do at most with dense matrices, and where and when it was read."""

    flops: float
    source: str
    date: str


class Device:
    """The control half. Values that a vendor does not need keep their defaults."""

    vendor: ClassVar[str]
    # The variable by which a process is given some of the devices, and that of the container runtime.
    visible: ClassVar[str | None] = None
    container_visible: ClassVar[str | None] = None
    # Flags of a container engine that hand the devices in.
    container: ClassVar[tuple[str, ...]] = ()
    # Framework → its collective backend on this device.
    backends: ClassVar[Mapping[str, str]] = {}
    # Variables that every rank on this device needs.
    environment: ClassVar[Mapping[str, str]] = {}
    # A pattern that matches one file for each device, where the driver makes such files.
    files: ClassVar[str | None] = None
    # (model, number format) → peak. A row needs the vendor's own page: a guessed peak makes an MFU that is not true.
    peaks: ClassVar[Mapping[tuple[str, str], Peak]] = {}
    # The module that detects and samples it on nodes; empty while there is none.
    node: ClassVar[str] = ""
    # Whether trainmark was tried on the hardware, or its parsers on recorded outputs of the vendor's tools.
    verified: ClassVar[bool] = False

    def count_here(self) -> int | None:
        """How many there are on this machine; None where no file tells."""
        return None if self.files is None else len(glob.glob(self.files))

    def found_here(self) -> list[str]:
        """The models of those on this machine, as `detect()` of the node half tells, else as many unknown ones as there
        are files. Empty where there are none."""
        if not self.node:
            return [""] * (self.count_here() or 0)
        detected = importlib.import_module(self.node).detect()
        if "devices" not in detected:
            return [""] * int(detected.get("count") or 0)
        return [str(one.get("model") or "") for one in detected["devices"]]

    def peak(self, model: str, dtype: str) -> Peak | None:
        """The dense peak of a model in a number format, where the vendor publishes one."""
        return self.peaks.get((model, dtype))


_OTHERS = "trainmark.devices.vendors"
REGISTRY = Registry(
    "device",
    {
        "cpu": "trainmark.devices.cpu.device:Cpu",
        "nvidia": f"{_OTHERS}:Nvidia",
        "iluvatar": f"{_OTHERS}:Iluvatar",
        "kunlunxin": f"{_OTHERS}:Kunlunxin",
        "cambricon": f"{_OTHERS}:Cambricon",
        "ascend": f"{_OTHERS}:Ascend",
        "mthreads": f"{_OTHERS}:Mthreads",
        "metax": f"{_OTHERS}:Metax",
        "dcu": f"{_OTHERS}:Dcu",
    },
)


# Words for any accelerator: none of them says whose it is, and none of them is a CPU.
_ANY = ("gpu", "gpus", "rocm", "accelerator", "xpu", "mlu")


def accelerators_here() -> tuple[str, int] | None:
    """Vendor and number of the accelerators of this machine; of several vendors' the first by name. None: no one's."""
    for vendor in REGISTRY.names():
        if vendor == "cpu":
            continue
        device: Device | None = guarded(partial(REGISTRY.get, vendor), f"device {vendor}")
        found = guarded(device.found_here, f"device {vendor}") if device else None
        if found:
            return vendor, len(found)
    return None


def device_of(vendor: str, named: str, site: str) -> Device:
    """The device of a vendor; `named` is what the case says, which the site may map to a vendor."""
    if not REGISTRY.knows(vendor):
        known = REGISTRY.names()
        # `gpu` is one letter from `cpu`, and means anything else.
        near = did_you_mean(vendor, [name for name in known if name != "cpu" or vendor.startswith("c")])
        if vendor.lower() in _ANY:
            near = ": `auto` takes what the machine has"
        raise UserError(
            f"device `{named}` is not known{near}; it is a vendor ({one_of(known)}) or a "
            f"model that site `{site}` maps to one: `devices: {{{named}: nvidia}}`"
        )
    device: Device = REGISTRY.get(vendor)
    return device


def dense_peak(vendor: str, model: str, dtype: str) -> Peak | None:
    """None also for vendors of imported runs that nobody here knows."""
    device: Device | None = REGISTRY.get(vendor) if REGISTRY.knows(vendor) else None
    return device.peak(model, dtype) if device else None
