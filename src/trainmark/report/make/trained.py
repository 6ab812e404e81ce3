"""What was trained: model size, batch, number format, data. A speed means nothing without it.

`of_case` makes the record that every `CaseReport` carries as `trained`; text, pages and exports show it as they like.
Everything comes from the resolved case, which the run's manifest holds, and from what the programs noted: runs of
older versions have it, too.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import Any

from trainmark.plan.records import CasePlan
from trainmark.reasons import Reason, reason
from trainmark.report.records import Trained
from trainmark.spec.band import batch_per_rank, global_batch
from trainmark.spec.case import SYNTHETIC
from trainmark.spec.columns import RankColumns
from trainmark.spec.shape import MODEL, image_size, sequence_length

# Notes of a program that say more of its model than its parameters do.
NOTES = ("parameters", "image_size")


def noted(ranks: Sequence[RankColumns]) -> dict[str, int]:
    """What the programs of an attempt said of their model; all ranks train the same."""
    found: dict[str, int] = {}
    for name in NOTES:
        values = [value for rank in ranks for value in rank.notes(name) if type(value) is int and value > 0]
        if values:
            found[name] = values[-1]
    return {**found, **_seen_from_outside(ranks)}


def _seen_from_outside(ranks: Sequence[RankColumns]) -> dict[str, int]:
    """What hooks in an unmodified program saw of its training: all that is known of a command of the user's own."""
    found: dict[str, int] = {}
    counts = [told for rank in ranks for told in rank.notes("counted") if isinstance(told, dict)]
    each = counts[-1].get("each") if counts else None
    if isinstance(each, list):
        sizes = [one[1] for one in each if isinstance(one, list) and len(one) == 3 and type(one[1]) is int]
        if sum(sizes) > 0:
            found["updated"] = sum(sizes)
    if counts:
        found["ranks"] = len(ranks)
        sizes = [int(n) for rank in ranks if rank.steps is not None for n in rank.steps.n if n > 0]
        # The last batch of an epoch may be smaller.
        if sizes:
            found["samples"] = Counter(sizes).most_common(1)[0][0]
    return found


def capped(ranks: Sequence[RankColumns]) -> list[Reason]:
    """That a training by time was cut off before it had measured what it was to measure, if it was."""
    for rank in ranks:
        for told in rank.notes("trained"):
            if isinstance(told, dict) and told.get("capped") is True:
                return [reason("training-capped", steps=told.get("steps"), planned=told.get("planned"))]
    return []


def of_case(case: CasePlan, notes: dict[str, int]) -> Trained:
    """`notes`: what `noted` found in an attempt that counts; empty when there is none."""
    params: dict[str, Any] = case.params
    batch, world = batch_per_rank(params), case.world
    if case.open:
        batch, world = batch or notes.get("samples"), world or notes.get("ranks")
    return Trained(
        workload=case.workload,
        preset=case.preset,
        unit=case.unit,
        parameters=notes.get("parameters"),
        model={name: params[name] for name in MODEL if name in params},
        batch_per_rank=batch,
        global_batch=None if batch is None or world is None or case.open else global_batch(params, world),
        ranks=world,
        dtype=str(params["dtype"]) if "dtype" in params else None,
        data=_data_name(case),
        synthetic=case.data == SYNTHETIC,
        sequence_length=sequence_length(params),
        image_size=image_size(params) or notes.get("image_size"),
        command=_command(case) if case.open else None,
        updated=notes.get("updated") if case.open else None,
    )


def _command(case: CasePlan) -> str | None:
    """As its user wrote it; secrets were taken out of the plan."""
    ranks = [rank for node in case.nodes for rank in node.ranks]
    return shlex.join(ranks[0].argv) if ranks else None


def _data_name(case: CasePlan) -> str | None:
    """Its name where it has one, else the last part of its path: folders of one machine say nothing elsewhere."""
    if case.data is None or case.data == SYNTHETIC:
        return case.data
    return case.data_name or case.data.rstrip("/").rpartition("/")[2] or case.data
