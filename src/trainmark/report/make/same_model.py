"""Whether two cases train the same model: the speed of a larger one says nothing of the speed of a smaller one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainmark.plan.records import CasePlan
from trainmark.report.make.trained import of_case


def differences(a: CasePlan, b: CasePlan) -> list[str]:
    """What differs, as `layers 3 → 12`; empty when both train the same model on samples of the same size, and when
    nothing is known of the model of either, as of a user's own command."""
    one, other = _model(a), _model(b)
    if len(one) == 1 or len(other) == 1:
        return []
    if one["workload"] != other["workload"]:
        return [_change("workload", one, other)]
    return [_change(name, one, other) for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]


def of_presets(ours: Mapping[str, CasePlan], theirs: Mapping[str, CasePlan]) -> str:
    """A sentence on cases that have one id and different presets, as runs of older versions may; empty for none."""
    by_id = {plan.id.identity: plan for plan in theirs.values()}
    for plan in ours.values():
        other = by_id.get(plan.id.identity)
        if other is not None and other.preset != plan.preset:
            return f"`{plan.id.identity}` was trained with preset {plan.preset} in A and {other.preset} in B"
    return ""


def _model(plan: CasePlan) -> dict[str, Any]:
    """Parameters that say how large model and samples are; not the preset, which is but a name for them."""
    trained = of_case(plan, {})
    sizes = {"sequence length": trained.sequence_length, "image size": trained.image_size}
    return {"workload": plan.workload, **trained.model, **{name: size for name, size in sizes.items() if size}}


def _change(name: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    return f"{name} {one.get(name, '–')} → {other.get(name, '–')}"
