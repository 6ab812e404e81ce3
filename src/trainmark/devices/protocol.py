"""What a device is, and how one is found by its vendor's name.

A device has two halves. The control half is a subclass of `Device`: data for planning, launching and scoring. The node
half is a module of its own, named by `Device.node`: standard library only, Python 3.7 and later, with

- `detect() -> dict`: what there is, as JSON; what cannot be known is None. Of an accelerator: `devices`, a list with
  one record for each, which has its `model`; or only their `count`; and `problem`, a reason, where something is wrong;
- `Sampler()` with `sample(rank_pids) -> dict`: what it does now; each sample is about the time since the one before;
- `UNITS`: the unit of every field of a sample.

`trainmark.testing.devices.DeviceContract` holds the tests that each device must pass.
"""

from __future__ import annotations

import glob
import importlib
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.plugins import Registry, guarded

# What shows that the node half reads what the vendor writes: texts that the vendor's tool wrote somewhere, a library
# with the vendor's own interface that was made for the tests, or the hardware itself.
Proof = Literal["recording", "library", "hardware"]


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
    # Flags of a container engine that hand the devices in (`{n}`: once for each number), and limits that its libraries
    # need there.
    container: ClassVar[tuple[str, ...]] = ()
    ulimits: ClassVar[Mapping[str, str]] = {}
    # Framework → its collective backend on this device.
    backends: ClassVar[Mapping[str, str]] = {}
    # What PyTorch calls it, and the module that must be imported first, where that is a plug-in.
    torch_device: ClassVar[str] = ""
    torch_module: ClassVar[str | None] = None
    # Variables that every rank on this device needs, and scripts of the vendor's whose variables it needs.
    environment: ClassVar[Mapping[str, str]] = {}
    setup: ClassVar[tuple[str, ...]] = ()
    # A pattern that matches one file for each device, where the driver makes such files.
    files: ClassVar[str | None] = None
    # (model, number format) → peak, for devices outside this package; those inside have `peaks.yaml`.
    peaks: ClassVar[Mapping[tuple[str, str], Peak]] = {}
    # The module that detects and samples it on nodes; empty where there is none.
    node: ClassVar[str] = ""
    # How reading it was proven; nothing: unverified.
    proven: ClassVar[tuple[Proof, ...]] = ()

    @property
    def verified(self) -> bool:
        return bool(self.proven)

    def count_here(self) -> int | None:
        """How many there are on this machine; None where no file tells."""
        return None if self.files is None else len(glob.glob(self.files))

    def found_here(self) -> list[str]:
        """The models of those on this machine, as `detect()` of the node half tells, else as many unknown ones as there
        are files. Empty where there are none."""
        if not self.node:
            return [""] * (self.count_here() or 0)
        detected = importlib.import_module(self.node).detect()
        if not detected.get("devices"):
            return [""] * int(detected.get("count") or 0)
        return [str(one.get("model") or "") for one in detected["devices"]]

    def peak(self, model: str, dtype: str) -> Peak | None:
        """The dense peak of a model in a number format, where the vendor publishes one."""
        return self.peaks.get((model, dtype)) or _published(self.vendor, model, dtype)


def container_flags(device: Device, count: int) -> list[str]:
    """The flags for `count` devices: one with `{n}` stands for each of their numbers."""
    flags = []
    for flag in device.container:
        flags += [flag.replace("{n}", str(number)) for number in range(count)] if "{n}" in flag else [flag]
    return flags


_HERE = "trainmark.devices"
_CLASSES = {
    "cpu": "Cpu",
    "nvidia": "Nvidia",
    "amd": "Amd",
    "dcu": "Dcu",
    "ascend": "Ascend",
    "cambricon": "Cambricon",
    "kunlunxin": "Kunlunxin",
    "iluvatar": "Iluvatar",
    "mthreads": "Mthreads",
    "metax": "Metax",
    "intel": "Intel",
    "apple": "Apple",
}
REGISTRY = Registry("device", {name: f"{_HERE}.{name}.device:{kind}" for name, kind in _CLASSES.items()})


# What people call devices of one vendor by the names of its libraries and companies.
ALIASES = {
    "cuda": "nvidia",
    "rocm": "amd",
    "hygon": "dcu",
    "npu": "ascend",
    "mlu": "cambricon",
    "corex": "iluvatar",
    "musa": "mthreads",
    "maca": "metax",
    "mps": "apple",
}


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `peaks.yaml`: words that a model's name must all have, and peaks by number format in FLOP/s."""

    model: str
    words: tuple[str, ...]
    flops: dict[str, float]
    source: str
    date: str
    # Words that it must not have: another model has them.
    without: tuple[str, ...] = ()


@cache
def published(vendor: str) -> tuple[_Model, ...]:
    """The rows of a vendor's `peaks.yaml`; none where it has no such file."""
    file = Path(__file__).parent / vendor / "peaks.yaml"
    if not file.is_file():
        return ()
    import yaml

    return msgspec.convert(yaml.safe_load(file.read_text()), tuple[_Model, ...])


def _published(vendor: str, model: str, dtype: str) -> Peak | None:
    """Of the row whose words are all in the model's name, in any case. Where several rows fit, the one with most words;
    a name that says too little to tell two rows apart has no peak."""
    name = model.lower()
    fits = [
        row
        for row in published(vendor)
        if all(word.lower() in name for word in row.words) and not any(word.lower() in name for word in row.without)
    ]
    most = max((len(row.words) for row in fits), default=0)
    best = {row.flops.get(dtype): row for row in fits if len(row.words) == most}
    if len(best) != 1:
        return None
    ((flops, row),) = best.items()
    return None if flops is None else Peak(flops, f"{row.model}: {row.source}", row.date)


# Words for any accelerator: none of them says whose it is, and none of them is a CPU.
_ANY = ("gpus", "accelerator", "xpu")


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
