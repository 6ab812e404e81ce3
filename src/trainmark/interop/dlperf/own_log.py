"""Our own rounds as logs that DLPerf's script for NGC PyTorch ResNet-50 reads, and that say at their top what they are:
so they can be read back as the same case, whatever it trains."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainmark.interop.dlperf.scripts import BY_SCRIPT, Script
from trainmark.interop.reading.patterns import seconds_of
from trainmark.interop.reading.records import LoggedEvent, clean
from trainmark.interop.writing.runs import Clock, Done, Heard, Losses

NAME = "trainmark"
_HEAD = "trainmark log for DLPerf "
_PHASE = " - trainmark phase "
# Its lines, and DLPerf's number for them.
_LIKE = "ngc-pytorch-resnet50"
_EDGES = {"PHASE_BEGIN": "begin", "PHASE_END": "end"}


class Head(msgspec.Struct, frozen=True):
    """What a log tells of itself. `samples`: in a step of all ranks; `first`, `last`: the steps that count."""

    workload: str
    framework: str
    unit: str
    samples: int
    steps: int
    first: int
    last: int
    # What the report says of the round beside its figure.
    flags: str = ""

    def script(self) -> Script:
        """How it is read. Of what comes from a file, only letters that names may have."""
        return msgspec.structs.replace(
            BY_SCRIPT[_LIKE],
            name=NAME,
            framework=clean(self.framework),
            workload=clean(self.workload),
            warmup=max(0, self.first - 1),
            train=max(1, self.last),
            pattern_name=_LIKE,
        )


def head_of(line: str) -> Head | None:
    """What the first line of a log says; None for a log of another kind."""
    if not line.startswith(_HEAD):
        return None
    try:
        found = msgspec.json.decode(line[len(_HEAD) :].strip(), type=Head)
    except msgspec.DecodeError:
        return None
    whole = 0 < found.samples < 10**12 and 0 < found.first <= found.last <= found.steps < 10**12
    return found if whole else None


def phase_of(line: str) -> LoggedEvent | None:
    """The edge of a phase between steps: what belongs to no step."""
    date, mark, rest = line.partition(_PHASE)
    edge, _, name = rest.partition(" ")
    kind = next((kind for kind, word in _EDGES.items() if word == edge), None)
    at = seconds_of(date.removeprefix("DLL "))[0] if mark else None
    if kind is None or at is None:
        return None
    return LoggedEvent(kind, round(at * 1e9), {"name": clean(name.strip())[:80]})


def text(done: Done, first: int, last: int, flags: str) -> str | None:
    """The log of a round, as its first rank saw it; None where it has no steps of one size."""
    nodes = done.nodes()
    if not nodes:
        return None
    heard = [event for event in done.heard(nodes[0][2]) if event.rank == 0]
    clock, losses = Clock(), Losses()
    for event in heard:
        clock.hear(event)
        losses.hear(event)
    steps = [event for event in heard if event.k == "STEP_END" and event.step is not None]
    sizes = Counter(event.n for event in steps if event.n)
    if not steps or not sizes:
        return None
    world = 1 if any(event.k == "INIT_START" and event.scope == "global" for event in heard) else done.case.world or 1
    head: dict[str, Any] = {
        "workload": done.case.workload,
        "framework": done.case.id.framework,
        "unit": done.case.unit,
        "samples": sizes.most_common(1)[0][0] * world,
        "steps": max(event.step or 0 for event in steps),
        "first": first,
        "last": last,
        "flags": flags,
    }
    lines = (line for event in heard for line in _line(event, clock, losses))
    return "".join([_HEAD + json.dumps(head) + "\n", *lines])


def _line(event: Heard, clock: Clock, losses: Losses) -> Iterator[str]:
    if event.k in _EDGES and event.name:
        yield f"DLL {_date(clock.us(0, event.t))}{_PHASE}{_EDGES[event.k]} {event.name}\n"
    elif event.k == "STEP_END" and event.step is not None:
        loss = losses.by_step.get(event.step)
        told = "" if loss is None else f"train.loss : {loss:.6f} "
        yield f"DLL {_date(clock.us(0, event.t))} - Epoch: 0 Iteration: {event.step}  {told}\n"


def _date(us: int) -> str:
    return f"{datetime.fromtimestamp(us // 1_000_000, UTC):%Y-%m-%d %H:%M:%S}.{us % 1_000_000:06d}"
