"""FlagPerf's monitor logs: of the host one line a sample, of the cards a time and then a line for each."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from trainmark.interop.reading.source import Lines

MIB = 1 << 20
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)-(\d\d):(\d\d):(\d\d)(?:\t(.*))?")
_NUMBER = r"(\d+(?:\.\d+)?)"
# nvidia, iluvatar, kunlunxin: `<T>C <P>W <used>MiB <total>MiB <util>%`.
_CARD = re.compile(rf"\s*{_NUMBER}C\s+{_NUMBER}W\s+{_NUMBER}MiB\s+{_NUMBER}MiB\s+{_NUMBER}%\s*")
# mthreads: the same five, spelled as its tool does.
_MTHREADS = re.compile(rf"\s*{_NUMBER}\s?C\s+{_NUMBER}\s?W\s+{_NUMBER}\s?MiB\s+{_NUMBER}\s?MiB\s+{_NUMBER}\s?%\s*")
CARDS: Mapping[str, re.Pattern[str]] = {
    "nvidia": _CARD,
    "iluvatar": _CARD,
    "kunlunxin": _CARD,
    "mthreads": _MTHREADS,
}
HOST = {"cpu": "cpu", "mem": "mem", "pwr": "power_w"}
# These write a whole table for people, which changes with the tool's version; cambricon's columns have no units.
NOT_READ = ("ascend", "cambricon", "dcu", "metax", "mx-smi")
_MOST_CARDS = 1024


class Seen(msgspec.Struct, frozen=True):
    """One sample. `seconds` since 1970 as if the log's clock were UTC: the log names no time zone."""

    seconds: int
    values: dict[str, Any]


def readable(monitor: str) -> bool:
    return monitor in HOST or monitor in CARDS


def read(monitor: str, lines: Lines) -> Iterator[Seen]:
    """The samples of one log. Lines that are none are flagged."""
    return _host(HOST[monitor], lines) if monitor in HOST else _cards(CARDS[monitor], lines)


def _host(name: str, lines: Lines) -> Iterator[Seen]:
    for _, text in lines:
        found = _TIME.match(text)
        seconds = _seconds(found) if found else None
        value = _number(found[7] or "") if found else None
        if seconds is not None and value is not None and not lines.torn:
            lines.take()
            yield Seen(seconds, {name: value})
        elif text:
            # The monitor writes the error text of its tool in place of a value.
            lines.flag("monitor line", text[:80])


def _cards(row: re.Pattern[str], lines: Lines) -> Iterator[Seen]:
    seconds: int | None = None
    cards: list[dict[str, float]] = []
    for _, text in lines:
        time = _TIME.fullmatch(text.rstrip())
        if time is not None:
            if seconds is not None and cards:
                yield Seen(seconds, {"devices": cards})
            seconds, cards = _seconds(time), []
            _settle(lines, seconds is not None, text)
        elif found := row.fullmatch(text):
            good = seconds is not None and len(cards) < _MOST_CARDS and not lines.torn
            _settle(lines, good, text)
            if good:
                cards.append(_card(*(float(part) for part in found.groups())))
        elif text.strip():
            lines.flag("monitor line", text[:80])
    if seconds is not None and cards:
        yield Seen(seconds, {"devices": cards})


def _settle(lines: Lines, good: bool, text: str) -> None:
    if good:
        lines.take()
    else:
        lines.flag("monitor line", text[:80])


def _card(temperature: float, power: float, used: float, total: float, busy: float) -> dict[str, float]:
    return {
        "temperature_c": temperature,
        "power_w": power,
        "memory_used": used * MIB,
        "memory_total": total * MIB,
        "utilisation": busy / 100,
    }


def _seconds(found: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1970 <= year < 2200 and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 62):
        return None
    return calendar.timegm((year, month, day, hour, minute, second))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if value - value == 0 else None


QUARTER = 900


def zone(first_sample: int, first_event: float) -> int:
    """Seconds that the monitors' clock is ahead of UTC: they start just before the program does.

    Zones are whole quarters of an hour, and a monitor that starts a minute late is still of the same one.
    """
    return -(-round(first_sample - first_event - 60) // QUARTER) * QUARTER
