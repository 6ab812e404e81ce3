"""NVIDIA's management library by ctypes. Names, numbers and layouts are those of NVIDIA's public header `nvml.h`.

A value that the library does not give on a device is None.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, Dict, List, Optional

from trainmark.devices.node_side.library import Devices, Library, LibraryError
from trainmark.devices.node_side.readings import Device, Rates
from trainmark.devices.node_side.reasons import reason
from trainmark.devices.node_side.tools import Problem
from trainmark.devices.nvidia.smi import SLOWING

LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2  # nvmlClockType_t
_DRIVER_NOT_LOADED, _NO_DEVICES, _MISMATCH = 9, 28, 18  # nvmlReturn_t
_XID_EVENT = 0x8  # nvmlEventTypeXidCriticalError
_ALL_LINKS = 0xFFFFFFFF
# Fields of nvmlDeviceGetFieldValues.
_LINK_TX, _LINK_RX = 138, 139  # KiB
_PCIE_TX, _PCIE_RX = 197, 198  # bytes, may wrap
_RETIRED_SBE, _RETIRED_DBE, _REMAPPED_COR, _REMAPPED_UNC = 29, 30, 142, 143
_TYPES = {0: "d", 1: "ui", 2: "ul", 3: "ull", 4: "sll", 5: "si", 6: "us"}  # nvmlValueType_t
_KIB = 1024
_MOST_LINKS = 18  # NVML_NVLINK_MAX_LINKS
# nvmlGpuTopologyLevel_t
_ANCESTORS = {0: "board", 10: "switch", 20: "switches", 30: "host bridge", 40: "node", 50: "system"}


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("legacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("id", ctypes.c_uint),
        ("subsystem", ctypes.c_uint),
        ("name", ctypes.c_char * 32),
    ]


class _Value(ctypes.Union):
    _fields_ = [
        ("d", ctypes.c_double),
        ("si", ctypes.c_int),
        ("ui", ctypes.c_uint),
        ("ul", ctypes.c_ulong),
        ("ull", ctypes.c_ulonglong),
        ("sll", ctypes.c_longlong),
        ("us", ctypes.c_ushort),
    ]


class _Field(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", _Value),
    ]


class _Event(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_void_p),
        ("type", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml(Devices):
    """The library, opened."""

    def __init__(self) -> None:
        self._library = Library((LIBRARY,))
        code = self._library.code("nvmlInit_v2")
        if code:
            raise LibraryError(_why(code))
        count = ctypes.c_uint()
        code = self._library.code("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if code:
            raise LibraryError(_why(code))
        self._handles = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            code = self._library.code("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
            if code:
                raise LibraryError(reason("device-lost", device=index, code=code))
            self._handles.append(handle)
        self.problem: Problem = None if self._handles else reason("device-driver-without-device", tool=LIBRARY)
        self._rates = Rates()
        self._errors: List[List[int]] = [[] for _ in self._handles]
        self._events = self._watch_errors()

    def driver(self) -> Optional[str]:
        return self._library.text("nvmlSystemGetDriverVersion")

    def devices(self) -> List[Device]:
        return [self._facts(index, handle) for index, handle in enumerate(self._handles)]

    def sample(self) -> List[Device]:
        self._hear_errors()
        return [self._readings(index, handle) for index, handle in enumerate(self._handles)]

    def _facts(self, index: int, handle: Any) -> Device:
        pci, mig, pending = _Pci(), ctypes.c_uint(), ctypes.c_uint()
        memory = self._memory(handle)
        placed = self._library.ask("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        return {
            "index": index,
            "model": self._library.text("nvmlDeviceGetName", handle),
            "uuid": self._library.text("nvmlDeviceGetUUID", handle),
            "bus": pci.name.decode() if placed else None,
            "firmware": self._library.text("nvmlDeviceGetVbiosVersion", handle),
            "memory_total": None if memory is None else memory.total,
            "power_limit_w": _scaled(self._uint("nvmlDeviceGetPowerManagementLimit", handle), 1e-3),
            "ecc": self._switch("nvmlDeviceGetEccMode", handle),
            "mig": bool(mig.value)
            if self._library.ask("nvmlDeviceGetMigMode", handle, ctypes.byref(mig), ctypes.byref(pending))
            else None,
            "width": self._uint("nvmlDeviceGetCurrPcieLinkWidth", handle),
            "most_width": self._uint("nvmlDeviceGetMaxPcieLinkWidth", handle),
            "links": self._links(handle),
            "near": self._near(index, handle),
        }

    def _readings(self, index: int, handle: Any) -> Device:
        memory, busy = self._memory(handle), _Utilisation()
        known = self._library.ask("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(busy))
        bits = self._ulong("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if bits is None:  # its name before driver 535
            bits = self._ulong("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        retired = self._retired(handle)
        errors = self._errors[index]
        return {
            "index": index,
            "utilisation": busy.gpu / 100.0 if known else None,
            "memory_utilisation": busy.memory / 100.0 if known else None,
            "memory_used": None if memory is None else memory.used,
            "memory_total": None if memory is None else memory.total,
            "power_w": _scaled(self._uint("nvmlDeviceGetPowerUsage", handle), 1e-3),
            "energy_j": _scaled(self._ulong("nvmlDeviceGetTotalEnergyConsumption", handle), 1e-3),
            "temperature_c": self._uint("nvmlDeviceGetTemperature", handle, ctypes.c_uint(0)),
            "clock_mhz": self._uint("nvmlDeviceGetClockInfo", handle, ctypes.c_uint(_SM)),
            "memory_clock_mhz": self._uint("nvmlDeviceGetClockInfo", handle, ctypes.c_uint(_MEMORY)),
            "clock_reasons": bits,
            "slowed": None if bits is None else int(bool(bits & SLOWING)),
            "corrected": self._ulong("nvmlDeviceGetTotalEccErrors", handle, ctypes.c_uint(0), ctypes.c_uint(0)),
            "uncorrected": self._ulong("nvmlDeviceGetTotalEccErrors", handle, ctypes.c_uint(1), ctypes.c_uint(0)),
            "retired_pages": retired,
            "pcie_replays": self._uint("nvmlDeviceGetPcieReplayCounter", handle),
            "error": errors[-1] if errors else None,
            "errors": len(errors) if self._events else None,
            **self._traffic(index, handle),
        }

    def _links(self, handle: Any) -> Optional[int]:
        """How many NVLinks are up."""
        asked = [self._uint("nvmlDeviceGetNvLinkState", handle, ctypes.c_uint(link)) for link in range(_MOST_LINKS)]
        known = [state for state in asked if state is not None]
        return sum(known) if known else None

    def _near(self, index: int, handle: Any) -> Optional[List[Optional[str]]]:
        """What the ways over PCIe to the other devices have in common, in their order; of itself None."""
        call = "nvmlDeviceGetTopologyCommonAncestor"
        levels = [
            None if place == index else self._uint(call, handle, other) for place, other in enumerate(self._handles)
        ]
        if all(level is None for level in levels):
            return None
        return [None if level is None else _ANCESTORS.get(level) for level in levels]

    def _memory(self, handle: Any) -> Optional[_Memory]:
        found = _Memory()
        return found if self._library.ask("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(found)) else None

    def _retired(self, handle: Any) -> Optional[float]:
        """Pages on older devices, rows since Ampere."""
        pages = self._fields(handle, [(number, 0) for number in (_RETIRED_SBE, _RETIRED_DBE)])
        rows = self._fields(handle, [(number, 0) for number in (_REMAPPED_COR, _REMAPPED_UNC)])
        known = [value for value in pages + rows if value is not None]
        return sum(known) if known else None

    def _traffic(self, index: int, handle: Any) -> Dict[str, Optional[float]]:
        """Bytes per second since the sample before, over PCIe and over all NVLinks together."""
        asked = [(_PCIE_RX, 0), (_PCIE_TX, 0), (_LINK_RX, _ALL_LINKS), (_LINK_TX, _ALL_LINKS)]
        received, sent, link_received, link_sent = self._fields(handle, asked)
        counts = {
            "pcie_rx": received,
            "pcie_tx": sent,
            "link_rx": _scaled(link_received, _KIB),
            "link_tx": _scaled(link_sent, _KIB),
        }
        return self._rates.per_second(index, time.monotonic(), counts)

    def _fields(self, handle: Any, asked: List[Any]) -> List[Optional[float]]:
        values = (_Field * len(asked))()
        for slot, (number, scope) in zip(values, asked):  # noqa: B905
            slot.id, slot.scope = number, scope
        if not self._library.ask("nvmlDeviceGetFieldValues", handle, ctypes.c_int(len(asked)), values):
            return [None] * len(asked)
        return [None if slot.result else getattr(slot.value, _TYPES.get(slot.type, "ull")) for slot in values]

    def _watch_errors(self) -> Any:
        """A set of events in which the driver's errors (Xid) arrive; None where they cannot be had."""
        events = ctypes.c_void_p()
        if not self._library.ask("nvmlEventSetCreate", ctypes.byref(events)):
            return None
        kind = ctypes.c_ulonglong(_XID_EVENT)
        if all(self._library.ask("nvmlDeviceRegisterEvents", handle, kind, events) for handle in self._handles):
            return events
        self._library.ask("nvmlEventSetFree", events)
        return None

    def _hear_errors(self) -> None:
        event = _Event()
        for _ in range(64):
            if not self._events or not self._library.ask("nvmlEventSetWait_v2", self._events, ctypes.byref(event), 0):
                return
            for index, handle in enumerate(self._handles):
                if handle.value == event.device and event.type == _XID_EVENT:
                    self._errors[index].append(event.data)

    def _uint(self, name: str, *arguments: Any) -> Optional[int]:
        return self._library.number(ctypes.c_uint, name, *arguments)

    def _ulong(self, name: str, *arguments: Any) -> Optional[int]:
        return self._library.number(ctypes.c_ulonglong, name, *arguments)

    def _switch(self, name: str, handle: Any) -> Optional[bool]:
        current, later = ctypes.c_uint(), ctypes.c_uint()
        known = self._library.ask(name, handle, ctypes.byref(current), ctypes.byref(later))
        return bool(current.value) if known else None


def _scaled(value: Optional[float], factor: float) -> Optional[float]:
    return None if value is None else value * factor


def _why(code: int) -> Dict[str, Any]:
    if code == _DRIVER_NOT_LOADED:
        return reason("device-driver-missing", tool=LIBRARY, said="the driver is not loaded (%d)" % code)
    if code == _MISMATCH:
        return reason("device-driver-missing", tool=LIBRARY, said="driver and library have two versions (%d)" % code)
    if code == _NO_DEVICES:
        return reason("device-driver-without-device", tool=LIBRARY)
    return reason("device-tool-failed", tool=LIBRARY, said="error %d" % code)
