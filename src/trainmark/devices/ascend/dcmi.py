"""Ascend's management library by ctypes. Names, numbers and layouts are those of Huawei's public header
`dcmi_interface_api.h`, units those of its DCMI reference.

A value that the library does not give on a device is None.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any, NamedTuple

from trainmark.devices.ascend import hccn
from trainmark.devices.node_side.library import Devices, Library, LibraryError
from trainmark.devices.node_side.readings import MIB, Device, Rates
from trainmark.devices.node_side.reasons import reason
from trainmark.devices.node_side.tools import Problem

LIBRARY = "libdcmi.so"
# Where its packages put it: not every shell has them on the path of its libraries.
_NAMES = (LIBRARY, "/usr/local/dcmi/libdcmi.so", "/usr/local/Ascend/driver/lib64/driver/libdcmi.so")
_MOST_CARDS = 64  # MAX_CARD_NUM
_MOST_ERRORS = 128
# DCMI_ERR_CODE_…: what it answers without a driver, without a device, and while another container has the devices.
_NO_DRIVER, _NO_DEVICE, _OCCUPIED = (-8005, -8009, -8010, -8012), -8008, -8020
_HBM = 2  # dcmi_device_type
_HBM_CLOCK, _CORE_CLOCK = 6, 7  # dcmi_freq_type
_CORE_RATE, _HBM_BANDWIDTH_RATE = 2, 10  # DCMI_UTILIZATION_RATE_…
_PORT = 0  # the only one there is
_ABSENT = 0xFFFFFFFF


class _Chip(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_char * 32),
        ("name", ctypes.c_char * 32),
        ("version", ctypes.c_char * 32),
        ("cores", ctypes.c_uint),
    ]


class _Pcie(ctypes.Structure):
    _fields_ = [
        ("vendor", ctypes.c_uint),
        ("subvendor", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("subdevice", ctypes.c_uint),
        ("domain", ctypes.c_int),
        ("bus", ctypes.c_uint),
        ("slot", ctypes.c_uint),
        ("function", ctypes.c_uint),
        ("reserve", ctypes.c_ubyte * 32),
    ]


class _Hbm(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_ulonglong),  # MB, as is what is used
        ("clock", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("temperature", ctypes.c_int),
        ("bandwidth", ctypes.c_uint),
    ]


class _Ecc(ctypes.Structure):
    _fields_ = [
        ("on", ctypes.c_int),
        ("single", ctypes.c_uint),
        ("double", ctypes.c_uint),
        ("all_single", ctypes.c_uint),
        ("all_double", ctypes.c_uint),
        ("single_pages", ctypes.c_uint),
        ("double_pages", ctypes.c_uint),
    ]


class _Packets(ctypes.Structure):
    """The counters that `hccn_tool -stat` writes, in its order."""

    _fields_ = [
        ("counts", ctypes.c_ulonglong * len(hccn.COUNTERS)),
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("reserved", ctypes.c_ubyte * 64),
    ]


class _Place(NamedTuple):
    """A chip: its number for processes, and those by which the library knows it."""

    number: int
    card: int
    chip: int


class Dcmi(Devices):
    """The library, opened."""

    def __init__(self) -> None:
        self._library = Library(_NAMES)
        code = self._library.code("dcmi_init")
        if code:
            raise LibraryError(_why(code))
        self._places = self._chips()
        self.problem: Problem = None if self._places else reason("device-driver-without-device", tool=LIBRARY)
        self._rates = Rates()

    def driver(self) -> str | None:
        return self._library.text("dcmi_get_driver_version")

    def devices(self) -> list[Device]:
        return [self._facts(place) for place in self._places]

    def sample(self) -> list[Device]:
        return [self._readings(place) for place in self._places]

    def _chips(self) -> list[_Place]:
        count, cards = ctypes.c_int(), (ctypes.c_int * _MOST_CARDS)()
        code = self._library.code("dcmi_get_card_list", ctypes.byref(count), cards, ctypes.c_int(_MOST_CARDS))
        if code == _NO_DEVICE:
            return []
        if code:
            raise LibraryError(_why(code))
        found: list[tuple[int | None, int, int]] = []
        for card in cards[: count.value]:
            for chip in range(self._chips_of(card)):
                number = ctypes.c_int()
                known = self._library.ask("dcmi_get_device_logic_id", ctypes.byref(number), card, chip)
                found.append((number.value if known else None, card, chip))
        if all(number is not None for number, _, _ in found):
            found.sort()  # by the number that a process calls it by
        return [_Place(number, card, chip) for number, (_, card, chip) in enumerate(found)]

    def _chips_of(self, card: int) -> int:
        """How many of a card's chips compute: its controller has a number behind theirs."""
        most, controller, cpu = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        places = (ctypes.byref(most), ctypes.byref(controller), ctypes.byref(cpu))
        code = self._library.code("dcmi_get_device_id_in_card", ctypes.c_int(card), *places)
        if code:
            raise LibraryError(reason("device-lost", device=card, code=code))
        return most.value

    def _facts(self, place: _Place) -> Device:
        chip, pcie, ecc, hbm = _Chip(), _Pcie(), self._ecc(place), self._hbm(place)
        named = self._get("dcmi_get_device_chip_info", place, ctypes.byref(chip))
        placed = self._get("dcmi_get_device_pcie_info_v2", place, ctypes.byref(pcie))
        return {
            "index": place.number,
            "card": place.card,
            "chip": place.chip,
            "model": _model(chip) if named else None,
            "bus": "%04x:%02x:%02x.%x" % (pcie.domain, pcie.bus, pcie.slot, pcie.function) if placed else None,
            "memory_total": None if hbm is None else hbm.size * MIB,
            "ecc": None if ecc is None else bool(ecc.on),
        }

    def _readings(self, place: _Place) -> Device:
        hbm, ecc = self._hbm(place), self._ecc(place)
        power = self._int("dcmi_get_device_power_info", place)
        health = self._uint("dcmi_get_device_health", place)
        bandwidth = self._uint("dcmi_get_device_utilization_rate", place, ctypes.c_int(_HBM_BANDWIDTH_RATE))
        return {
            "index": place.number,
            "utilisation": _share(self._uint("dcmi_get_device_utilization_rate", place, ctypes.c_int(_CORE_RATE))),
            "memory_utilisation": _share(bandwidth),
            "memory_used": None if hbm is None else hbm.used * MIB,
            "memory_total": None if hbm is None else hbm.size * MIB,
            "memory_temperature_c": None if hbm is None else hbm.temperature,
            "power_w": None if power is None or power < 0 else power / 10.0,
            "temperature_c": self._int("dcmi_get_device_temperature", place),
            "clock_mhz": self._uint("dcmi_get_device_frequency", place, ctypes.c_int(_CORE_CLOCK)),
            "memory_clock_mhz": self._uint("dcmi_get_device_frequency", place, ctypes.c_int(_HBM_CLOCK)),
            "corrected": None if ecc is None else ecc.all_single,
            "uncorrected": None if ecc is None else ecc.all_double,
            "retired_pages": None if ecc is None else ecc.single_pages + ecc.double_pages,
            "healthy": None if health in (None, _ABSENT) else int(health == 0),
            **self._errors(place),
            **self._packets(place),
        }

    def _errors(self, place: _Place) -> Device:
        """Of the faults that a chip has now, how many there are and the number of the last one."""
        count, codes = ctypes.c_int(), (ctypes.c_uint * _MOST_ERRORS)()
        if not self._get(
            "dcmi_get_device_errorcode_v2", place, ctypes.byref(count), codes, ctypes.c_uint(_MOST_ERRORS)
        ):
            return {}
        known = max(0, min(count.value, _MOST_ERRORS))
        return {"errors": known, "error": codes[known - 1] if known else None}

    def _packets(self, place: _Place) -> Device:
        found = _Packets()
        if not self._get("dcmi_get_netdev_pkt_stats_info", place, ctypes.c_int(_PORT), ctypes.byref(found)):
            return {}
        counts = dict(zip(hccn.COUNTERS, found.counts))  # noqa: B905
        return hccn.readings(counts, self._rates, place.number, time.monotonic())

    def _hbm(self, place: _Place) -> _Hbm | None:
        found = _Hbm()
        return found if self._get("dcmi_get_device_hbm_info", place, ctypes.byref(found)) else None

    def _ecc(self, place: _Place) -> _Ecc | None:
        found = _Ecc()
        return found if self._get("dcmi_get_device_ecc_info", place, ctypes.c_int(_HBM), ctypes.byref(found)) else None

    def _get(self, name: str, place: _Place, *arguments: Any) -> bool:
        return self._library.ask(name, ctypes.c_int(place.card), ctypes.c_int(place.chip), *arguments)

    def _int(self, name: str, place: _Place) -> int | None:
        return self._library.number(ctypes.c_int, name, ctypes.c_int(place.card), ctypes.c_int(place.chip))

    def _uint(self, name: str, place: _Place, *arguments: Any) -> int | None:
        return self._library.number(ctypes.c_uint, name, ctypes.c_int(place.card), ctypes.c_int(place.chip), *arguments)


def _model(chip: _Chip) -> str | None:
    """`910B3`: what npu-smi calls it."""
    return chip.name.decode("utf-8", "replace").strip() or None


def _share(percent: int | None) -> float | None:
    """A rate above 100 % is how the library says that it has none."""
    return percent / 100.0 if percent is not None and percent <= 100 else None


def _why(code: int) -> dict[str, Any]:
    if code in _NO_DRIVER:
        return reason("device-driver-missing", tool=LIBRARY, said="the driver does not answer (%d)" % code)
    if code == _NO_DEVICE:
        return reason("device-driver-without-device", tool=LIBRARY)
    said = "another container has the devices" if code == _OCCUPIED else "error"
    return reason("device-tool-failed", tool=LIBRARY, said="%s (%d)" % (said, code))
