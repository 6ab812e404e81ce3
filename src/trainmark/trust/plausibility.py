"""Whether what a run shows can have happened: its ranks' events against each other, and against what the agents saw.

Pure functions on columns and samples. What a careful liar can still do is said in docs/trust.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.spec.columns import Columns, NodeSamples, RankColumns, is_number

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

NS = 1e9
# Fewer steps say nothing about noise.
LEAST_STEPS = 50
# Real step times vary: by less than this share of their mean, or with so many equal ones, they do not.
LEAST_NOISE = 2e-5
MOST_EQUAL = 0.5
# Of the logarithms of step times of two rounds, their outliers cut off.
MOST_ALIKE = 0.98
# Their beginnings are looked at first; those of copies are alike as well.
LEAST_LIKE = 0.9
# The agents' account of speed may differ from that of the events by this, or by four standard errors if that is more.
SPEED_TOLERANCE = 0.02
LEAST_ACCOUNTS = 10
# Agents sample once a second. All intervals together may be shorter than that by this much, and by one interval.
SAMPLE_SECONDS, SAMPLE_TOLERANCE, LEAST_SAMPLES = 1.0, 0.01, 10
# Processors that ranks which compute on them use at least, all together; the share of its time that a device of theirs
# is busy at least. Vendors' tools tell whole percents: a device that trains is above one of them.
LEAST_LOAD = 0.02
LEAST_BUSY = 0.01
# Events may begin and end this many seconds outside of what was sampled.
CLOCK_SLACK = 5.0
# A measured peak is itself uncertain by about this much.
PEAK_TOLERANCE = 1.10
# Of the power outside training; a machine that trains does not use less than one that waits.
LEAST_POWER = 0.9


def of_attempt(columns: Columns, samples: Sequence[NodeSamples], trains_on: str = "") -> Iterator[Reason]:
    """What cannot be true of one attempt. `trains_on`: `cpu` or `device`; empty when nothing is known of its load."""
    nodes = {one.node: one for one in samples}
    for one in samples:
        yield from _sampled_too_often(one)
    for rank in columns.ranks:
        node = nodes.get(rank.node)
        yield from _noise(rank)
        yield from _smooth_loss(rank)
        if node is not None and node.records:
            yield from _clock(rank, node)
            yield from _speed(rank, node)
    for node in samples:
        here = [rank for rank in columns.ranks if rank.node == node.node and rank.steps is not None]
        if here:
            if trains_on:
                yield from _load(here, node) if trains_on == "cpu" else _device_load(here, node)
            yield from _power(here, node)


class Shape(msgspec.Struct, frozen=True, eq=False):
    """What a round looks like: the logarithms of rank 0's step times, without their level, and its losses."""

    times: Floats
    losses: Floats


def shape(columns: Columns) -> Shape:
    return Shape(_logs(columns), _losses(columns))


def of_losses(rounds: Sequence[tuple[int, Shape]], same_seed: bool) -> Iterator[Reason]:
    """Rounds of a case whose losses are the same, although each had a seed of its own."""
    seen: dict[bytes, int] = {}
    for number, one in rounds:
        first = seen.setdefault(one.losses.tobytes(), number)
        if first != number and len(one.losses) >= LEAST_STEPS and not same_seed:
            yield reason("losses-copied", a=f"round {first}", b=f"round {number}", steps=len(one.losses))


def of_rounds(rounds: Sequence[tuple[str, Shape]]) -> Iterator[tuple[str, Reason]]:
    """Rounds of a bundle, whatever their cases, whose step times are copies of each other. Names come with them."""
    import numpy as np

    known = [(name, one.times) for name, one in rounds if len(one.times) >= LEAST_STEPS]
    if len(known) < 2:
        return
    # Their beginnings first, all against all at once: few pairs are worth a closer look.
    heads = np.array([times[:LEAST_STEPS] - times[:LEAST_STEPS].mean() for _, times in known])
    norms = np.linalg.norm(heads, axis=1)
    heads /= np.where(norms > 0, norms, 1)[:, None]
    copies: set[int] = set()
    for first, (name, times) in enumerate(known):
        if first in copies:
            continue
        for second in (np.flatnonzero(heads[first + 1 :] @ heads[first] > LEAST_LIKE) + first + 1).tolist():
            other, others = known[second]
            alike = _alike(times, others)
            if alike > MOST_ALIKE:
                copies.add(second)
                yield other, reason("rounds-alike", a=name, b=other, percent=round(100 * alike, 1))


def over_peak(achieved: float | None, peak: float | None, source: str) -> Iterator[Reason]:
    """Faster than the hardware was measured, or is published, to be."""
    if achieved is not None and peak and achieved > PEAK_TOLERANCE * peak:
        yield reason("over-peak", achieved=achieved, peak=peak, source=source)


def _durations(rank: RankColumns) -> Floats:
    import numpy as np

    if rank.steps is None or len(rank.steps.t) < 2:
        return np.empty(0)
    return np.diff(rank.steps.t) / NS


def _noise(rank: RankColumns) -> Iterator[Reason]:
    import numpy as np

    times = _durations(rank)
    if len(times) < LEAST_STEPS or rank.timing != "host":
        return
    middle = float(np.median(times))
    if middle <= 0:
        return
    spread = float(np.median(np.abs(times - middle))) / middle
    equal = 1 - len(np.unique(times)) / len(times)
    if spread < LEAST_NOISE or equal > MOST_EQUAL:
        yield reason("no-noise", rank=rank.rank, spread=spread, equal=round(100 * equal, 1))


def copied_ranks(columns: Columns) -> Iterator[Reason]:
    """Ranks that train together have nearly the same step times, and not the same to the nanosecond, unless one process
    speaks for all of them."""
    seen: dict[bytes, int] = {}
    for rank in columns.ranks:
        times = _durations(rank)
        first = seen.setdefault(times.tobytes(), rank.rank)
        if first != rank.rank and len(times) >= LEAST_STEPS and rank.timing == "host":
            yield reason("ranks-copied", a=first, b=rank.rank, steps=len(times))


def _sampled_too_often(node: NodeSamples) -> Iterator[Reason]:
    """Whoever presses a round's times together presses those of its samples together, too. On a busy machine the first
    sample may be late, and the others are not."""
    intervals = len(node.records) - 1
    if intervals < LEAST_SAMPLES:
        return
    seconds = (node.records[-1]["t"] - node.records[0]["t"]) / NS
    if seconds < SAMPLE_SECONDS * (intervals * (1 - SAMPLE_TOLERANCE) - 1):
        every = round(seconds / intervals, 3)
        yield reason("sampled-too-often", node=node.host, seconds=every, wanted=SAMPLE_SECONDS)


def _smooth_loss(rank: RankColumns) -> Iterator[Reason]:
    """Losses of batches scatter around their course; those of a formula do not. Only the beginning is looked at: a loss
    that has reached its floor, or a learning rate that has reached 0, leaves nothing to scatter."""
    import numpy as np

    if rank.steps is None:
        return
    losses = rank.steps.loss[np.isfinite(rank.steps.loss)][:LEAST_STEPS]
    if len(losses) < LEAST_STEPS:
        return
    reach = float(np.ptp(losses))
    third = np.diff(losses, 3)
    if reach > 0 and float(np.median(np.abs(third))) < 1e-7 * reach:
        yield reason("loss-too-smooth", rank=rank.rank, steps=len(losses))


def _clock(rank: RankColumns, node: NodeSamples) -> Iterator[Reason]:
    """Events and samples of a node have one clock."""
    first, last = node.records[0]["t"], node.records[-1]["t"]
    before, after = (first - rank.first) / NS, (rank.last - last) / NS
    if before > CLOCK_SLACK + 60 or after > CLOCK_SLACK or rank.last < first - CLOCK_SLACK * NS:
        yield reason("events-outside-samples", rank=rank.rank, before=round(before, 1), after=round(after, 1))


def _speed(rank: RankColumns, node: NodeSamples) -> Iterator[Reason]:
    """The agent noted each second how far the rank was. Its clock and the rank's events must tell the same speed."""
    import numpy as np

    if rank.steps is None:
        return
    accounts = _accounts(rank, node)
    known = {int(step): int(at) for step, at in zip(rank.steps.step, rank.steps.t, strict=True)}
    pairs = [(seen, known[step]) for step, seen in accounts.items() if step in known]
    if len(pairs) < LEAST_ACCOUNTS:
        return
    x, y = (np.asarray(values, float) / NS for values in zip(*pairs, strict=True))
    x, y = x - x.mean(), y - y.mean()
    squares = float((x**2).sum())
    slope = float((x * y).sum()) / squares
    rest = y - slope * x
    error = math.sqrt(float((rest**2).sum()) / (len(x) - 2) / squares)
    if abs(slope - 1) > max(SPEED_TOLERANCE, 4 * error):
        yield reason("speed-differs-from-agent", rank=rank.rank, percent=round(100 * (slope - 1), 1))


def _accounts(rank: RankColumns, node: NodeSamples) -> dict[int, int]:
    """Step → when the agent first saw the rank there; later ones with the same step saw it waiting."""
    found: dict[int, int] = {}
    for record in node.records:
        steps = record.get("steps")
        step = steps.get(str(rank.rank)) if isinstance(steps, dict) else None
        if isinstance(step, int):
            found.setdefault(step, record["t"])
    return found


def one_account_only(columns: Columns, samples: Sequence[NodeSamples]) -> bool:
    """Whether a round that was long enough for it has too few notes of its agents to hold its speed against."""
    nodes = {one.node: one for one in samples}
    for rank in columns.ranks:
        if rank.steps is None:
            continue
        # As many as there were seconds, or steps if these took longer.
        possible = min((int(rank.steps.t[-1]) - int(rank.steps.t[0])) / NS, len(rank.steps.t))
        node = nodes.get(rank.node)
        noted = 0 if node is None else len(_accounts(rank, node))
        if possible > 1.5 * LEAST_ACCOUNTS and noted < possible / 2:
            return True
    return False


def _load(ranks: Sequence[RankColumns], node: NodeSamples) -> Iterator[Reason]:
    """A rank that trains on a CPU uses it."""
    begin, end = _training(ranks)
    if (end - begin) / NS < 5:
        return
    found = [
        sum(
            float(one["cpu"]) for one in record["ranks"].values() if isinstance(one, dict) and is_number(one.get("cpu"))
        )
        for record in node.within(begin, end)
        if isinstance(record.get("ranks"), dict)
    ]
    if found and sum(found) / len(found) < LEAST_LOAD:
        yield reason("no-load", node=node.host, cores=round(sum(found) / len(found), 4))


def _device_load(ranks: Sequence[RankColumns], node: NodeSamples) -> Iterator[Reason]:
    """A rank that trains on a device uses it. Where the tool of its vendor does not tell, nothing is said."""
    begin, end = _training(ranks)
    if (end - begin) / NS < 5:
        return
    busy: dict[int, list[float]] = {}
    for record in node.within(begin, end):
        devices = record.get("devices")
        for one in devices if isinstance(devices, list) else ():
            index = one.get("index") if isinstance(one, dict) else None
            used = node.devices is None or index in node.devices
            if isinstance(index, int) and used and is_number(one.get("utilisation")):
                busy.setdefault(index, []).append(float(one["utilisation"]))
    # Without knowing which devices the ranks had, idle ones beside them are no contradiction.
    shares = {index: sum(values) / len(values) for index, values in busy.items() if len(values) >= 3}
    if node.devices is None and any(share >= LEAST_BUSY for share in shares.values()):
        return
    for index, share in sorted(shares.items()):
        if share < LEAST_BUSY:
            yield reason("no-device-load", node=node.host, device=index, percent=round(100 * share, 2))


def _power(ranks: Sequence[RankColumns], node: NodeSamples) -> Iterator[Reason]:
    begin, end = _training(ranks)
    inside = node.mean("power_w", begin, end)
    outside = [
        float(record["power_w"])
        for record in node.records
        if is_number(record.get("power_w")) and not begin < record["t"] <= end
    ]
    if inside is None or len(outside) < 3:
        return
    idle = min(outside)
    if inside < LEAST_POWER * idle:
        yield reason("power-below-idle", node=node.host, training=round(inside, 1), idle=round(idle, 1))


def _training(ranks: Sequence[RankColumns]) -> tuple[int, int]:
    found = [rank.steps for rank in ranks if rank.steps is not None]
    return min(int(steps.t[0]) for steps in found), max(int(steps.t[-1]) for steps in found)


def _logs(columns: Columns) -> Floats:
    """Of rank 0's step times, without its level, outliers cut off."""
    import numpy as np

    times = _durations(columns.ranks[0]) if columns.ranks else np.empty(0)
    if len(times) < LEAST_STEPS or (times <= 0).any():
        return np.empty(0)
    logs = np.log(times)
    low, high = np.quantile(logs, (0.02, 0.98))
    return np.asarray(np.clip(logs, low, high) - np.clip(logs, low, high).mean())


def _losses(columns: Columns) -> Floats:
    import numpy as np

    steps = columns.ranks[0].steps if columns.ranks else None
    return np.empty(0) if steps is None else steps.loss[np.isfinite(steps.loss)]


def _alike(a: Floats, b: Floats) -> float:
    """Correlation of what both have."""
    n = min(len(a), len(b))
    a, b = a[:n] - a[:n].mean(), b[:n] - b[:n].mean()
    scale = math.sqrt(float((a**2).sum()) * float((b**2).sum()))
    return float((a * b).sum()) / scale if scale > 0 else 1.0
