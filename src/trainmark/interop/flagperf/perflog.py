"""PerfLog lines into columns, a block of lines at a time.

Nearly every line of a long log is a step: those become rows of plain arrays. All else (other events, numbers that are
not finite, broken lines) is handed on as bytes, to be looked at with more patience.
"""

from __future__ import annotations

import itertools
import operator
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from trainmark.interop.reading import source

BLOCK = 1 << 20
MARK = b"[PerfLog]"
# How FlagPerf begins a step, and the same line cut to what is left to be decoded.
_STEP = b"\n" + MARK + b' {"event": "STEP_END", "'
_CUT = b'\n{"'
_BREAK = ord("\n")
UNKNOWN = -1
# The same in a column. Survey for as bytes, which is many times quicker than number by number.
_NONE = array("q", [UNKNOWN]).tobytes()
_WIDTH = len(_NONE)
# Lines are decoded in slices: what comes of one fits into a processor's cache.
_SLICE = 1 << 16

if TYPE_CHECKING:
    # step, t_ms, total, n, loss
    Columns = tuple[array[int], array[int], array[int], array[int], array[float]]


class Block(msgspec.Struct):
    """What some whole lines hold: lines = other + taken + rare + long.

    Columns are the bytes of arrays (`columns`). -1 is unknown, and NaN a loss that was not told.
    """

    lines: int = 0
    other: int = 0
    # Steps (one row each) and beginnings of steps (which tell nothing more).
    taken: int = 0
    step: bytes = b""
    t_ms: bytes = b""
    # Samples since the beginning, and of this record alone: whichever the program tells.
    total: bytes = b""
    n: bytes = b""
    loss: bytes = b""
    # (rows before it, line in the block, what is behind the mark)
    rare: list[tuple[int, int, bytes]] = []
    # Lines that are too long to be looked at.
    long: list[int] = []

    def columns(self) -> Columns:
        whole = [array("q", data) for data in (self.step, self.t_ms, self.total, self.n)]
        return whole[0], whole[1], whole[2], whole[3], array("d", self.loss)


class _Value(msgspec.Struct, frozen=True, gc=False):
    global_steps: int = UNKNOWN
    step: int = UNKNOWN
    num_trained_samples: int = UNKNOWN
    samples: int = UNKNOWN
    loss: float = float("nan")


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    time_ms: int = UNKNOWN


class _Line(msgspec.Struct, frozen=True, gc=False):
    event: str
    value: _Value = _Value()
    metadata: _Metadata = _Metadata()


class _Step(_Line, frozen=True, gc=False):
    """A step whose event was cut off with its beginning. Another event further on would be the one that counts."""

    event: Literal["STEP_END"] = "STEP_END"


_DECODER, _STEPS = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Step)
_BAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def blocks(path: Path) -> Iterator[Block]:
    """All blocks of a file, packed or not, in order. Memory does not grow with the file."""
    rest = b""
    with source.opened(path) as stream:
        while data := stream.read(BLOCK):
            end = data.rfind(b"\n") + 1
            if not end:
                # Of a line that is too long, only so much is kept that it is seen to be.
                rest = (rest + data)[: source.LONGEST_LINE + 1]
                continue
            yield parse(rest + data[:end])
            rest = data[end:]
    if rest:
        yield parse(rest)


def parse(data: bytes) -> Block:
    """Whole lines → a block."""
    block, whole = Block(rare=[], long=[]), memoryview(data)
    rows: list[tuple[bytes, ...]] = []
    at, stop, done = 0, len(data), 0
    while at < stop:
        end = data.rfind(b"\n", at, min(at + _SLICE, stop)) + 1 or data.find(b"\n", at + _SLICE, stop) + 1 or stop
        # From the end of the line before to the last one's: it begins with a line break and does not end with one.
        last = end - 1 if data[end - 1] == _BREAK else end
        lines = bytes(whole[at - 1 : last]) if at else b"\n" + bytes(whole[:last])
        rows.append(_quick(lines, block, done) or _patient(lines, block, done))
        done += len(rows[-1][0]) // _WIDTH
        at = end
    names = ("step", "t_ms", "total", "n", "loss")
    for name, parts in zip(names, zip(*rows, strict=True), strict=False):
        setattr(block, name, b"".join(parts))
    return block


def _quick(data: bytes, block: Block, done: int) -> tuple[bytes, ...] | None:
    """Columns of lines, each with a line break before it, most of which are steps as FlagPerf writes them; or None.

    Those are cut at their beginnings and decoded all at once; the lines between them one by one.
    """
    if len(data) > source.LONGEST_LINE:
        return None
    # What is before the first step, and what is from one step to the next.
    parts = data.split(_STEP)
    others: list[tuple[int, bytes]] = []
    if any(map(operator.contains, parts, itertools.repeat(_BREAK))):
        for before, part in enumerate(parts):
            if _BREAK in part:
                parts[before], *lines = part.split(b"\n")
                others += [(before, line) for line in lines]
    try:
        steps = _STEPS.decode_lines(_CUT.join(parts))
        columns = _columns(steps)
    except (*_BAD, struct.error):
        return None
    if len(steps) != len(parts) - 1:
        return None
    if others:
        whole = _with_others(steps, others, block, done)
        columns = columns if len(whole) == len(steps) else _columns(whole)
    block.lines += len(steps) + len(others)
    block.taken += len(steps)
    return columns


def _patient(data: bytes, block: Block, done: int) -> tuple[bytes, ...]:
    """The same, line by line: one odd line spoils only itself."""
    lines = [(0, line) for line in data.split(b"\n")[1:]]
    columns = _columns(_with_others([], lines, block, done))
    block.lines += len(lines)
    return columns


def _with_others(steps: Sequence[_Line], others: list[tuple[int, bytes]], block: Block, done: int) -> list[_Line]:
    """Steps, and lines with the number of steps before each: steps among those lines are put between the others."""
    merged: list[_Line] = []
    used = 0
    for before, (index, line) in enumerate(others):
        merged += steps[used:index]
        used = index
        step = _single_line(line, block.lines + index + before + 1, done + len(merged), block)
        if step is not None:
            merged.append(step)
    merged += steps[used:]
    return merged


def _single_line(line: bytes, number: int, rows: int, block: Block) -> _Line | None:
    """One line by itself: a step, or None for one that is told to the block."""
    at = line.find(MARK)
    if len(line) > source.LONGEST_LINE:
        block.long.append(number)
    elif at < 0:
        block.other += 1
    else:
        payload = line[at + len(MARK) :]
        told = _typed(payload)
        if told is None or told.event not in ("STEP_END", "STEP_BEGIN"):
            block.rare.append((rows, number, payload))
            return None
        block.taken += 1
        if told.event == "STEP_END":
            return told
    return None


_LEAST, _MOST = -(1 << 63), 1 << 63


def _typed(payload: bytes) -> _Line | None:
    try:
        line = _DECODER.decode(payload)
    except _BAD:
        return None
    value = line.value
    whole = (value.global_steps, value.step, value.num_trained_samples, value.samples, line.metadata.time_ms)
    return line if all(_LEAST <= number < _MOST for number in whole) else None


def _columns(lines: Sequence[_Line]) -> tuple[bytes, ...]:
    """step, t_ms, total, n, loss of steps. Made by `struct`, which is quicker than arrays are."""
    values = [line.value for line in lines]
    whole, real = struct.Struct(f"{len(values)}q").pack, struct.Struct(f"{len(values)}d").pack
    step = whole(*[value.global_steps for value in values])
    if _NONE in step:
        step = whole(*[_step(value) for value in values])
    t_ms = whole(*[line.metadata.time_ms for line in lines])
    total = whole(*[value.num_trained_samples for value in values])
    n = whole(*[_n(value) for value in values]) if _NONE in total else _NONE * len(values)
    return step, t_ms, total, n, real(*[value.loss for value in values])


def _step(value: _Value) -> int:
    return value.step if value.global_steps == UNKNOWN else value.global_steps


def _n(value: _Value) -> int:
    # Few programs tell it, and those do not tell the total.
    return value.samples if value.num_trained_samples == UNKNOWN else UNKNOWN
