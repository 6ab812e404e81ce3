"""Reading the events and results that nodes wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainmark.spec.event import Event
from trainmark.store.rundir import EVENTS, RESULT


class EventsRead(msgspec.Struct, frozen=True):
    events: list[Event]
    warnings: list[str]
    lines: int


def read_attempt(attempt: Path) -> EventsRead:
    """All events of an attempt's nodes. Torn or foreign lines are counted in a warning, never taken for data."""
    events: list[Event] = []
    warnings: list[str] = []
    lines = 0
    for file in sorted(attempt.glob(f"*/{EVENTS}")):
        broken = 0
        for line in file.read_bytes().split(b"\n"):
            if not line:
                continue
            lines += 1
            try:
                events.append(_DECODER.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                broken += 1
        if broken:
            warnings.append(f"{file}: {broken} broken line(s) passed over")
    return EventsRead(events, warnings, lines)


_DECODER = msgspec.json.Decoder(Event)


def results(attempt: Path) -> Iterator[dict[str, Any]]:
    """The result record of each node that left one, in node order."""
    from trainmark.store.files import read_json

    for file in sorted(attempt.glob(f"*/{RESULT}"), key=lambda path: int(path.parent.name.rpartition("noderank")[2])):
        found = read_json(file)
        if isinstance(found, dict):
            yield found
