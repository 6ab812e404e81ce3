"""Reference loss bands: what the loss of a correct run looks like, shipped as `bands.json` beside `workload.yaml`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.spec.case_id import Value

FILE = "bands.json"
# Splitting the same global batch over more ranks, or into parts, changes none of what the band was made with. The
# longer names are those of FlagPerf.
_BATCH = ("batch", "train_batch_size")
_PARTS = ("accumulate", "gradient_accumulation_steps")


class Stretch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mean loss over the steps `first` to `last` lies between `low` and `high`."""

    first: int
    last: int
    low: float
    high: float


class Band(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was run to make it, and what came out."""

    preset: str
    framework: str
    data: str | None
    global_batch: int
    params: dict[str, Value]
    seeds: int
    stretches: tuple[Stretch, ...]


class Bands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`bands.json`. `made` says with what."""

    schema: Literal[1]
    made: dict[str, str]
    bands: tuple[Band, ...]


def global_batch(params: Mapping[str, Value], world: int) -> int:
    return (batch_per_rank(params) or 1) * world


def batch_per_rank(params: Mapping[str, Value]) -> int | None:
    """What a rank trains in one update of the weights; None for a workload without such a parameter."""
    counts = [value for name in (*_BATCH, *_PARTS) if type(value := params.get(name)) is int]
    return math.prod(counts) if counts else None


def read(folder: Path) -> tuple[Band, ...]:
    """The bands of the workload in `folder`; none when it ships none."""
    file = folder / FILE
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}") from None
    try:
        return msgspec.json.decode(data, type=Bands).bands
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UserError(f"{file}: {error}; make it again with `python tools/bands.py`") from None


def choose(
    bands: tuple[Band, ...],
    *,
    preset: str,
    framework: str,
    data: str | None,
    params: Mapping[str, Value],
    world: int,
    checkpoint: str | None,
    batch_statistics: bool = False,
) -> tuple[Band | None, Reason | None]:
    """The band that holds for a case, or None and why none does.

    A workload is trained alike in all frameworks, so a band made with one holds for those that have none of their own.
    `batch_statistics`: what a rank normalises by comes from its own samples alone, so it matters how a batch is shared.
    """
    named = sorted((band for band in bands if band.preset == preset), key=lambda band: band.framework != framework)
    if not named:
        return None, reason("no-band-for-preset", preset=preset)
    band = named[0]
    if checkpoint:
        return None, reason("starts-from-checkpoint")
    if data != band.data:
        return None, reason("other-data", data=band.data)
    batch = global_batch(params, world)
    if batch != band.global_batch:
        return None, reason("other-global-batch", batch=batch, wanted=band.global_batch)
    if batch_statistics and (own := batch_per_rank(params)) != (wanted := batch_per_rank(band.params)):
        return None, reason("other-batch-per-rank", batch=own, wanted=wanted)
    for name, value in band.params.items():
        if name not in (*_BATCH, *_PARTS) and params.get(name) != value:
            return None, reason("other-parameter", name=name, value=params.get(name), wanted=value)
    return band, None
