"""An attempt's events as columns, read as a stream: a torn or foreign line is counted, never taken for data.

NumPy is imported when the first step is met, so a run without steps does not pay for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.reasons import Reason, listed, reason
from trainmark.spec.columns import MOST_SAMPLES, Columns, Event, RankColumns, Steps
from trainmark.store.rundir import EVENTS, node_files, node_name

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, Ints

CHUNK = 1 << 20
_LARGEST = 2**63 - 1
# Of a program that was not written for trainmark it may not be known how many samples a step has.
UNKNOWN = -1
_INTS = ("rank", "seq", "t", "step", "n", "data")
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError, ValueError)


class _Line(msgspec.Struct, gc=False):
    """The fields of frequent events only: fewer fields are read twice as fast."""

    k: str
    rank: int
    seq: int
    t: int
    step: int = 0
    n: int = UNKNOWN
    data: int = 0
    loss: float | str | None = None


_LINES = msgspec.json.Decoder(_Line)
_EVENT = msgspec.json.Decoder(Event)
_GETTERS: list[Callable[[_Line], int]] = [attrgetter(name) for name in _INTS]


class _Table(msgspec.Struct, frozen=True, eq=False):
    """Records of one kind, in the order read: the integer columns by name, and losses."""

    ints: dict[str, Ints]
    loss: Floats

    def take(self, index: Any) -> _Table:
        return _Table({name: values[index] for name, values in self.ints.items()}, self.loss[index])


class _File:
    """What is gathered from one events file."""

    def __init__(self) -> None:
        self.steps: list[_Table] = []
        self.blocks: list[_Table] = []
        self.marks: dict[int, dict[int, Event]] = defaultdict(dict)
        self.losses: dict[int, dict[int, Event]] = defaultdict(dict)
        self.times: dict[int, dict[int, Event]] = defaultdict(dict)
        self.odd: dict[int, int] = defaultdict(int)
        self.broken = 0
        self.lines = 0

    def add(self, chunk: bytes) -> None:
        try:
            self._take(_LINES.decode_lines(chunk), chunk)
        except _BROKEN:
            good = [line for line in _split(chunk) if self._is_good(line)]
            if good:
                whole = b"\n".join(good)
                self._take(_LINES.decode_lines(whole), whole)

    def _is_good(self, line: bytes) -> bool:
        try:
            found = _LINES.decode(line)
            _EVENT.decode(line)
            _number(found.loss)
        except _BROKEN:
            self.broken += 1
            self.lines += 1
            return False
        if all(abs(getattr(found, name)) <= _LARGEST for name in _INTS):
            return True
        if found.k == "STEP_END":
            self.odd[found.rank] += 1
        else:
            self.broken += 1
        self.lines += 1
        return False

    def _take(self, found: list[_Line], chunk: bytes) -> None:
        """All of a chunk, or nothing when a line in it is broken."""
        steps = [line for line in found if line.k == "STEP_END"]
        rest = [(at, line) for at, line in enumerate(found) if line.k != "STEP_END"] if len(steps) < len(found) else []
        blocks = [line for _, line in rest if line.k == "BLOCK"]
        texts = chunk.split(b"\n") if len(rest) > len(blocks) else []
        if len(texts) > len(found):
            texts = _split(chunk)
        if any(max(abs(line.t), abs(line.seq), abs(line.rank)) > _LARGEST for _, line in rest):
            raise OverflowError
        events = [_EVENT.decode(texts[at]) for at, line in rest if line.k != "BLOCK"]
        tables = [_table(lines) if lines else None for lines in (steps, blocks)]
        for table, kept in zip(tables, (self.steps, self.blocks), strict=True):
            if table is not None:
                kept.append(table)
        for event in events:
            {"LOSS": self.losses, "TIMES": self.times}.get(event.k, self.marks)[event.rank].setdefault(event.seq, event)
        self.lines += len(found)


def _split(chunk: bytes) -> list[bytes]:
    return [line for line in chunk.split(b"\n") if line.strip()]


def _number(loss: float | str | None) -> float | None:
    """A loss as a number; the probe writes those that JSON has no number for as text."""
    return float(loss) if loss is not None else None


def _table(lines: Sequence[_Line]) -> _Table:
    import numpy as np

    ints = {name: np.fromiter(map(get, lines), np.int64, len(lines)) for name, get in zip(_INTS, _GETTERS, strict=True)}
    return _Table(ints, np.array([line.loss for line in lines], dtype=np.float64))


def read(attempt: Path, world: int | None = None, seen: Callable[[bytes], object] | None = None) -> Columns:
    """All events of an attempt. A record seen twice counts once, a rank outside `world` not. `seen` gets all bytes."""
    ranks: dict[int, RankColumns] = {}
    warnings: list[Reason] = []
    lines = 0
    for path in node_files(attempt, EVENTS):
        file = _File()
        for chunk in chunks(path, seen):
            file.add(chunk)
        lines += file.lines
        if file.broken:
            warnings.append(reason("event-lines-broken", file=str(path), count=file.broken))
        foreign: set[int] = set()
        for rank in _ranks(file, node_name(path.parent)):
            if rank.rank < 0 or (world is not None and rank.rank >= world) or rank.rank in ranks:
                foreign.add(rank.rank)
            else:
                ranks[rank.rank] = rank
        if foreign:
            warnings.append(reason("events-of-foreign-ranks", file=str(path), ranks=listed(sorted(foreign), 5)))
    return Columns([ranks[number] for number in sorted(ranks)], warnings, lines)


def chunks(path: Path, seen: Callable[[bytes], object] | None = None) -> Iterator[bytes]:
    """The file in pieces of whole lines; what stands after the last line's end comes last."""
    rest = b""
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            if seen is not None:
                seen(block)
            head, end, tail = block.rpartition(b"\n")
            if end:
                yield rest + head
                rest = tail
            else:
                rest += block
    if rest:
        yield rest


def _ranks(file: _File, node: str) -> Iterator[RankColumns]:
    steps, blocks = _by_rank(file.steps), _by_rank(file.blocks)
    for rank in sorted({*steps, *blocks, *file.marks, *file.losses}):
        marks = _in_order(file.marks[rank])
        times = [event.t for event in marks]
        found, odd = None, file.odd[rank]
        if rank in steps:
            table = steps[rank]
            kept, bad = _plausible(table)
            odd += bad
            times += [int(table.ints["t"][0]), int(table.ints["t"][-1])]
            if len(kept.loss):
                found = _steps(kept, blocks.get(rank), *(_in_order(of[rank]) for of in (file.losses, file.times)))
        if times:
            yield RankColumns(rank, node, min(times), max(times), marks, found, odd)


def _in_order(events: dict[int, Event]) -> list[Event]:
    return [event for _, event in sorted(events.items())]


def _by_rank(tables: list[_Table]) -> dict[int, _Table]:
    """Each rank's records in the order of their numbers, each once. The parts are let go as soon as they are joined."""
    if not tables:
        return {}
    import numpy as np

    if len(tables) == 1 and _is_one_rank(tables[0]):
        return {int(tables[0].ints["rank"][0]): tables.pop()}  # most files
    ints = {name: np.concatenate([table.ints[name] for table in tables]) for name in _INTS}
    whole = _Table(ints, np.concatenate([table.loss for table in tables]))
    tables.clear()
    order = np.argsort(whole.ints["rank"], kind="stable")
    numbers, starts = np.unique(whole.ints["rank"][order], return_index=True)
    found = {}
    for number, index in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        seq = whole.ints["seq"][index]
        if np.any(seq[1:] <= seq[:-1]):
            index = index[np.unique(seq, return_index=True)[1]]
        found[number] = whole.take(index)
    return found


def _is_one_rank(table: _Table) -> bool:
    """Whether all its records are of one rank, in order, each once."""
    rank, seq = table.ints["rank"], table.ints["seq"]
    return bool((rank == rank[0]).all() and (seq[1:] > seq[:-1]).all())


def _plausible(table: _Table) -> tuple[_Table, int]:
    """Without the records that cannot be true, and how many those were."""
    import numpy as np

    n = table.ints["n"]
    good = (table.ints["step"] >= 1) & ((n == UNKNOWN) | ((n >= 1) & (n <= MOST_SAMPLES)))
    good &= table.ints["data"] >= 0
    kept = table if good.all() else table.take(good)
    step, t = kept.ints["step"], kept.ints["t"]
    if (step[1:] > step[:-1]).all() and (t[1:] >= t[:-1]).all():
        return kept, len(table.loss) - len(kept.loss)
    forward = np.ones(len(step), dtype=bool)
    forward[1:] = (step[1:] > np.maximum.accumulate(step)[:-1]) & (t[1:] >= np.maximum.accumulate(t)[:-1])
    kept = kept.take(forward)
    return kept, len(table.loss) - len(kept.loss)


def _steps(table: _Table, blocks: _Table | None, losses: list[Event], times: list[Event]) -> Steps:
    import numpy as np

    step, loss = table.ints["step"], table.loss
    empty = np.zeros(0, dtype=np.int64)
    _fill(loss, step, losses)
    device = np.full(len(step), np.nan) if times else None
    if device is not None:
        _fill(device, step, times)
    return Steps(
        step,
        table.ints["t"],
        np.maximum(table.ints["n"], 0),
        table.ints["data"],
        loss,
        blocks.ints["step"] if blocks is not None else empty,
        blocks.ints["t"] if blocks is not None else empty,
        device,
    )


def _fill(column: Floats, step: Ints, events: list[Event]) -> None:
    """What was told of steps afterwards."""
    import numpy as np

    pairs = [pair for event in events for pair in _pairs(event)]
    if pairs:
        numbers = np.array([number for number, _ in pairs])
        at = np.searchsorted(step, numbers)
        known = (at < len(step)) & (step[np.minimum(at, len(step) - 1)] == numbers)
        column[at[known]] = np.array([value for _, value in pairs])[known]


def _pairs(event: Event) -> Iterator[tuple[int, float]]:
    values = event.values if isinstance(event.values, list) else []
    for step, value in zip(event.steps, values, strict=False):
        if isinstance(value, int | float | str) and abs(step) <= _LARGEST:
            try:
                yield step, float(value)
            except ValueError:
                continue
