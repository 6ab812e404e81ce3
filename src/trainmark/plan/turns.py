"""Two plans whose blocks are taken in turns, so that what changes with time meets both alike. Pure, but for the files
of workloads, whose present version is looked at."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.plan.build import program_version, shuffled_blocks
from trainmark.plan.records import CasePlan, Plan

# With fewer a verdict would need a very large difference.
LEAST_ROUNDS, USUAL_ROUNDS = 2, 5


def rounds_of(plans: Sequence[Plan], asked: int | None) -> int:
    """Rounds of every case: as asked, else as many as the plans say, and not fewer than a verdict needs."""
    if asked is not None:
        if asked < LEAST_ROUNDS:
            raise UserError(f"--rounds: found {asked}, allowed is {LEAST_ROUNDS} and more: one round has no spread")
        return asked
    said = [case.repeat for plan in plans for case in plan.cases if case.auto is None]
    return max([USUAL_ROUNDS, *said])


def in_turns(plan: Plan, rounds: int, seed: int, name: str) -> Plan:
    """The plan with so many blocks of all its cases. The same seed on both sides: their rounds train alike."""
    if plan.kind != "benchmark":
        raise UserError(f"{plan.suite}: a run of kind `{plan.kind}` is not run again to be compared")
    cases = tuple(_often(case, rounds) for case in plan.cases)
    return msgspec.structs.replace(
        plan, cases=cases, blocks=shuffled_blocks(cases, seed), seed=seed, turns=name, within=None
    )


def _often(case: CasePlan, rounds: int) -> CasePlan:
    name = str(msgspec.structs.replace(case.id, repeat=rounds))
    return msgspec.structs.replace(case, case=name, repeat=rounds, auto=None, studies=())


def again(plan: Plan, identity: str | None) -> Plan:
    """The plan of a run that was made, for another one, with its workloads as they are now. `identity`: of one case."""
    cases = [case for case in plan.cases if identity in (None, case.id.identity)]
    once = {case.id.identity: case for case in cases if case.skipped is None}
    return msgspec.structs.replace(plan, cases=tuple(_present(case) for case in once.values()))


def _present(case: CasePlan) -> CasePlan:
    if case.open or not case.version:
        return case
    return msgspec.structs.replace(case, version=program_version(Path(case.folder), case.path[1:]))


def order(blocks: int, seed: int) -> list[tuple[str, int]]:
    """Which side takes which block (from 1), in the order of time: in each block it is drawn who comes first."""
    drawn = random.Random(seed)  # noqa: S311 - an order, not a secret
    firsts = [drawn.choice(("AB", "BA")) for _ in range(blocks)]
    return [(side, block) for block, first in enumerate(firsts, 1) for side in first]


def partners(a: Sequence[CasePlan], b: Sequence[CasePlan]) -> list[tuple[CasePlan, CasePlan]]:
    """Cases of both sides that are compared: those with one identity; of the rest, if there are as many on both sides,
    the first of one with the first of the other, and so on, as far as they train the same."""
    theirs = {case.id.identity: case for case in b}
    shared = [(case, theirs[case.id.identity]) for case in a if case.id.identity in theirs]
    names = {one.id.identity for one, _ in shared}
    left, right = ([case for case in side if case.id.identity not in names] for side in (a, b))
    rest = list(zip(left, right, strict=True)) if len(left) == len(right) else []
    return shared + [(one, other) for one, other in rest if len(rest) == 1 or one.workload == other.workload]
