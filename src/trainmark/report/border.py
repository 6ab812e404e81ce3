"""What the site's peaks say of the border between one node and several, for a series that was measured on one."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.reasons import Reason, reason
from trainmark.report.study import Measured
from trainmark.spec.columns import is_number
from trainmark.spec.peaks import Message, Peaks, fit
from trainmark.store import columns, journal
from trainmark.store.rundir import Manifest, RunDir
from trainmark.store.state import RunState

# DistributedDataParallel shares gradients in the format of the weights, which mixed precision leaves at 32 bits.
GRADIENT_BYTES = 4
ALL_REDUCE = "all_reduce"


class Border(msgspec.Struct, frozen=True):
    """Seconds that the gradients take between two nodes, and where that comes from."""

    seconds: float
    source: Reason | None = None


def border(run: RunDir, manifest: Manifest, series: Measured, found: Peaks) -> Border:
    """UserError when the peaks, or the run, do not tell enough."""
    points = sorted({(one.bytes, _between_two(one)) for one in found.messages if _is_ours(one)})
    if len(points) < 2:
        raise UserError(
            f"the peaks of site `{found.site}` have no all-reduce between hosts; `trainmark peaks --site FILE` "
            "measures it on a site of 2 hosts and more"
        )
    size = GRADIENT_BYTES * _parameters(run, manifest, series)
    line = fit(points)
    worlds = sorted({one.world for one in found.messages if _is_ours(one)})
    seconds = line.latency + size / line.bandwidth
    ranks = reason("hosts-for-two", hosts=worlds[0]) if worlds != [2] else reason("two-hosts")
    known = {"megabytes": size / 1e6, "milliseconds": 1e3 * seconds, "run": found.run, "hosts": ranks}
    return Border(seconds, reason("all-reduce-by-peaks", **known))


def of_plan(manifest: Manifest) -> Peaks | None:
    """What the plan took along."""
    told: dict[str, Any] | None = manifest.plan.peaks
    return None if told is None else msgspec.convert(told, Peaks)


def _is_ours(one: Message) -> bool:
    return (one.operation, one.scope) == (ALL_REDUCE, "between") and one.seconds > 0


def _between_two(one: Message) -> float:
    """A ring's wire carries 2 (n − 1) ÷ n of a message: just one between two hosts."""
    return one.seconds * one.world / (2 * (one.world - 1))


def _parameters(run: RunDir, manifest: Manifest, series: Measured) -> int:
    plan = manifest.plan
    state = RunState.replay(plan, journal.read(run.path).records)
    for index, case in enumerate(plan.cases):
        for ref, attempt in state.counted(index)[:1] if case.case in series.cases else []:
            ranks = columns.read(run.attempt(case, ref, attempt.number), case.world).ranks
            told = [note for rank in ranks for note in rank.notes("parameters") if is_number(note)]
            if told:
                return int(told[0])
    raise UserError(
        "the run does not tell how many parameters it trained, so the size of its gradients is not known; "
        "--all-reduce SECONDS says how long they take between two nodes"
    )
