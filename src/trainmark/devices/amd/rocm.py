"""What `rocm-smi --json` writes, of AMD's devices and of Hygon's. Pure; keys change their case between releases."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional

from trainmark.devices.node_side.readings import MIB, number, percent, scaled
from trainmark.devices.node_side.tools import Parsed

ARGUMENTS = (
    "--showtemp",
    "--showuse",
    "--showpower",
    "--showmeminfo",
    "vram",
    "--showclocks",
    "--showproductname",
    "--showbus",
    "--showdriverversion",
    "--json",
)
_CARD = re.compile(r"card(\d+)$")


def parse(text: str) -> Parsed:
    """Warnings may stand before the JSON."""
    begin = text.find("{")
    try:
        found = json.loads(text[begin:]) if begin >= 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return Parsed(None)
    system = _lower(found.get("system"))
    cards = sorted((int(name.group(1)), value) for name, value in _named(found) if isinstance(value, dict))
    return Parsed([_device(index, _lower(value)) for index, value in cards], system.get("driver version"))


def _named(found: Dict[str, Any]) -> List[Any]:
    return [(match, value) for match, value in ((_CARD.match(key), found[key]) for key in found) if match]


def _lower(values: Any) -> Dict[str, Any]:
    return {str(name).strip().lower(): value for name, value in values.items()} if isinstance(values, dict) else {}


def _device(index: int, card: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "index": index,
        "model": card.get("card series") or card.get("card model"),
        "bus": card.get("pci bus"),
        "utilisation": percent(card.get("gpu use (%)", card.get("dcu use (%)", card.get("hcu use (%)")))),
        "memory_total": _bytes(card, "vram total memory"),
        "memory_used": _bytes(card, "vram total used memory"),
        "power_w": _first(
            card,
            "average graphics package power (w)",
            "current socket graphics package power (w)",
        ),
        "power_limit_w": number(card.get("max graphics package power (w)")),
        "temperature_c": _first(
            card,
            "temperature (sensor junction) (c)",
            "temperature (sensor edge) (c)",
        ),
        "memory_temperature_c": number(card.get("temperature (sensor memory) (c)")),
        "clock_mhz": number(str(card.get("sclk clock speed:", "")).strip("()")),
        "memory_clock_mhz": number(str(card.get("mclk clock speed:", "")).strip("()")),
    }


def _bytes(card: Dict[str, Any], name: str) -> Optional[float]:
    whole = number(card.get(name + " (b)"))
    return whole if whole is not None else scaled(card.get(name + " (mib)"), MIB)


def _first(card: Dict[str, Any], *names: str) -> Optional[float]:
    return next((value for value in (number(card.get(name)) for name in names) if value is not None), None)
