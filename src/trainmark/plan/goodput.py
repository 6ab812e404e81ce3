"""A plan that shows how much of a job's time is training: cases that go on when they are cut off. Pure."""

from __future__ import annotations

import msgspec

from trainmark.errors import UserError
from trainmark.plan.records import CasePlan, Plan, RoundRef

_CHECKPOINTS = 5
_RETRIES = 3


def goodput(plan: Plan, kill: int | None) -> Plan:
    """The cases of `plan` once each, with checkpoints. `kill`: a rank that is killed once in each of them."""
    cases = tuple(_case(case, kill) for case in plan.cases)
    blocks = (tuple(RoundRef(index, 1) for index in range(len(cases))),)
    return msgspec.structs.replace(
        plan, kind="goodput", cases=cases, blocks=blocks, width=1, recover=True, retries=_RETRIES, kill=kill
    )


def _case(case: CasePlan, kill: int | None) -> CasePlan:
    if kill is not None and (case.world is None or not 0 <= kill < case.world):
        raise UserError(f"--kill: found {kill}, `{case.case}` has ranks 0 to {(case.world or 1) - 1}")
    params = dict(case.params)
    # FlagPerf's name, in `bert`.
    steps = params.get("steps", params.get("max_steps"))
    if params.get("checkpoint_every") == 0 and isinstance(steps, int) and steps > 0:
        params["checkpoint_every"] = max(1, steps // _CHECKPOINTS)
    if kill is not None and not params.get("checkpoint_every"):
        raise UserError(
            f"--kill: `{case.case}` saves no checkpoints, so it could not go on; set steps and checkpoint_every"
        )
    return msgspec.structs.replace(case, params=params, repeat=1, auto=None, length=None)
