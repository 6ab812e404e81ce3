"""Small plans for tests that need one and do not care what it runs."""

from __future__ import annotations

import msgspec

from trainmark.plan.records import SCHEMA, Plan, RoundRef
from trainmark.spec.rules import RepeatAuto
from trainmark.spec.site import Site
from trainmark.testing.launchers import case_plan

HOSTS = ["here", "there"]


def plan(repeats: list[int], retries: int = 1, auto: RepeatAuto | None = None, width: int = 1) -> Plan:
    """A plan with one case for each number, repeated that often, in plain order; with `auto`, one more, the last. Every
    second case is on the same host."""
    if auto is not None:
        repeats = [*repeats, auto.max]
    cases = tuple(
        msgspec.structs.replace(case_plan(("true",), [HOSTS[index % 2]], f"thing:none:cpu:1:{index + 1}:{n}"), repeat=n)
        for index, n in enumerate(repeats)
    )
    if auto is not None:
        cases = (*cases[:-1], msgspec.structs.replace(cases[-1], auto=auto))
    blocks = tuple(
        tuple(RoundRef(index, number) for index, n in enumerate(repeats) if n >= number)
        for number in range(1, max(repeats) + 1)
    )
    return Plan(SCHEMA, "test", "closed", Site(hosts=HOSTS), 1, retries, cases, blocks, width)
