"""The energy of a run, part by part: every device, node and round, over its window and as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from trainmark.plan.records import CasePlan
from trainmark.report.meters import Meter
from trainmark.score.figures.attempt import times_of
from trainmark.score.figures.energy import METER, Account, account, accounts, parts
from trainmark.spec.columns import Columns, NodeSamples
from trainmark.spec.states import JobState
from trainmark.store import columns, events, journal
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState

JOULES_PER_KWH = 3.6e6


class Row(msgspec.Struct, frozen=True):
    """One part of one node in one round, over the window (`over`: `window`) or from first to last event (`round`)."""

    case: str
    round: int
    host: str
    part: str
    over: str
    way: str
    joules: float
    seconds: float
    coverage: float
    rate: float | None
    gaps: int
    mean_w: float
    max_w: float | None
    # Grams of CO2, where the intensity of the current is known.
    carbon_g: float | None = None


# (begin, end) in seconds since 1970 → what the meter read in that time.
Ask = Callable[[float, float], Meter]


def rows(run: RunDir, ask: Ask | None = None, intensity: float | None = None) -> list[Row]:
    """`intensity`: grams of CO2 for a kWh."""
    state = RunState.replay(run.manifest().plan, journal.read(run.path).records)
    found: list[Row] = []
    for index, case in enumerate(run.manifest().plan.cases):
        for ref in state.refs(index):
            good = [one for one in state.rounds[ref].attempts if one.state is JobState.SUCCEEDED]
            if good:
                read = columns.read(folder := run.attempt(case, ref, good[-1].number), case.world)
                found += _round(case, ref.round, read, events.samples(folder), ask, intensity)
    return found


def _round(
    case: CasePlan,
    number: int,
    read: Columns,
    nodes: Sequence[NodeSamples],
    ask: Ask | None,
    intensity: float | None,
) -> list[Row]:
    window, whole = times_of(read.ranks, case.window)
    found = []
    for over, times in (("window", window), ("round", whole)):
        made = accounts(nodes, times)
        if ask is not None:
            made += _metered(read, nodes, times, ask)
        found += [_row(case, number, over, one, intensity) for one in made]
    return found


def _metered(read: Columns, nodes: Sequence[NodeSamples], times: dict[str, tuple[int, int]], ask: Ask) -> list[Account]:
    made = []
    for samples in nodes:
        wall = _wall(read, samples.node)
        if wall is None or samples.node not in times:
            continue
        begin, end = times[samples.node]
        told = ask((begin + wall) * 1e-9 - 60, (end + wall) * 1e-9 + 60)
        points = told.get(samples.host) or (told.get("") if len(nodes) == 1 else None) or []
        records = [{"t": round(at * 1e9) - wall, f"{METER}_w": watts} for at, watts in points]
        readings = parts(msgspec.structs.replace(samples, records=records)).get(METER, [])
        one = account(samples.node, METER, readings, begin, end)
        if one is not None:
            made.append(one)
    return made


def _wall(read: Columns, node: str) -> int | None:
    """Nanoseconds that the world's clock is ahead of a node's own."""
    marks = (mark for rank in read.ranks if rank.node == node for mark in rank.marks if mark.wall is not None)
    mark = next(marks, None)
    return None if mark is None or mark.wall is None else mark.wall - mark.t


def _row(case: CasePlan, number: int, over: str, one: Account, intensity: float | None) -> Row:
    return Row(
        case=case.case,
        round=number,
        host=one.node.rpartition("_noderank")[0] or one.node,
        part=one.part,
        over=over,
        way=one.way,
        joules=one.joules,
        seconds=one.seconds,
        coverage=one.coverage,
        rate=one.rate,
        gaps=one.gaps,
        mean_w=one.mean,
        max_w=one.highest,
        carbon_g=None if intensity is None else one.joules / JOULES_PER_KWH * intensity,
    )
