"""A plan of diagnostic rounds: every case plain, traced and training alone, in the same blocks. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from trainmark.errors import UserError
from trainmark.plan.build import shuffled_blocks
from trainmark.plan.records import CasePlan, Diagnostic, Plan
from trainmark.reasons import reason
from trainmark.spec.case_id import CaseId, Value
from trainmark.spec.workload import EXEC

LEAST_STEPS, LEAST_ROUNDS = 20, 3
KEY = "diagnose"
# Work between steps that is no part of a step; where a program has these parameters, this value means never.
_NEVER: dict[str, Value] = {"checkpoint_every": 0, "target_accuracy": 0.0}


def distinct(plan: Plan, begins: str = "") -> Plan:
    """Of the cases whose ids begin so, those that are alike but for how often they run once."""
    found = {case.identity: case for case in plan.cases if case.case.startswith(begins)}
    return msgspec.structs.replace(plan, cases=tuple(found.values()))


def diagnostic(plan: Plan, rounds: int, skip: int, steps: int, seed: int) -> Plan:
    """The plan that explains `plan`."""
    for name, found, least in (
        ("--rounds", rounds, LEAST_ROUNDS),
        ("--steps", steps, LEAST_STEPS),
        ("--skip", skip, 1),
    ):
        if found < least:
            raise UserError(f"{name}: found {found}, allowed is {least} and more: fewer give no interval")
    cases = tuple(made for case in plan.cases for made in _modes(case, rounds, skip, steps))
    return msgspec.structs.replace(
        plan,
        kind="diagnosis",
        suite=KEY,
        division="open",
        seed=seed,
        width=1,
        cases=cases,
        blocks=shuffled_blocks(cases, seed),
    )


def _modes(case: CasePlan, rounds: int, skip: int, steps: int) -> list[CasePlan]:
    if case.pattern is not None or (not case.probe and not case.open):
        raise UserError(
            f"case `{case.case}` cannot be diagnosed: nothing of trainmark is inside its training processes"
        )
    if case.id.framework not in ("pytorch", EXEC):
        raise UserError(f"case `{case.case}` cannot be diagnosed: only PyTorch is traced, found {case.id.framework}")
    several = case.world is None or case.world > 1
    modes: tuple[Literal["plain", "trace", "alone"], ...] = (
        ("plain", "trace", "alone") if several else ("plain", "trace")
    )
    return [_case(case, Diagnostic(mode, case.case, skip, steps), rounds) for mode in modes]


def _case(case: CasePlan, asked: Diagnostic, rounds: int) -> CasePlan:
    """The same case, as long as its steps take, and judged by nothing: weights of ranks that train alone differ."""
    found = case.id
    name = msgspec.structs.replace(found, repeat=rounds, variant=tuple(sorted([*found.variant, (KEY, asked.mode)])))
    params = dict(case.params)
    if case.open:
        params.pop("steps", None)  # a limit the user gave; the round has its own
    elif isinstance(params.get("steps"), int):
        params["steps"] = asked.skip + asked.steps + 1
    params.update({key: value for key, value in _NEVER.items() if key in params})
    return msgspec.structs.replace(
        case,
        case=str(CaseId.parse(str(name))),
        params=params,
        repeat=rounds,
        auto=None,
        band=(),
        band_missing=reason("diagnostic"),
        loss_falls=False,
        window=None,
        length=None,
        diagnostic=asked,
    )
