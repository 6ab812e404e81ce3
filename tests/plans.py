"""Small plans for tests that need one and do not care what it runs."""

from __future__ import annotations

from trainmark.frameworks import Command
from trainmark.plan.records import SCHEMA, CasePlan, NodePlan, Plan, RoundRef
from trainmark.spec.site import Site
from trainmark.spec.workload import Deadlines


def case_plan(text: str = "thing:none:cpu:1:1:1", repeat: int = 1) -> CasePlan:
    return CasePlan(
        case=text,
        fingerprint="f" * 16,
        workload="thing",
        unit="things",
        framework="none",
        device="cpu",
        vendor="cpu",
        visible=None,
        backend="",
        preset="smoke",
        division="closed",
        opened=(),
        params={},
        origins={},
        data=None,
        data_name=None,
        data_required=False,
        checkpoint=None,
        flops_per_sample=None,
        target=None,
        probe=False,
        deadlines=Deadlines(),
        ports=(),
        env={},
        path=(),
        repeat=repeat,
        nodes=(NodePlan(0, "here", (Command(0, 0, ("true",), {}),)),),
    )


def plan(repeats: list[int], retries: int = 1) -> Plan:
    """A plan with one case for each number, repeated that often, in plain order."""
    cases = tuple(case_plan(f"thing:none:cpu:1:{index + 1}:{n}", n) for index, n in enumerate(repeats))
    blocks = tuple(
        tuple(RoundRef(index, number) for index, n in enumerate(repeats) if n >= number)
        for number in range(1, max(repeats) + 1)
    )
    return Plan(SCHEMA, "test", "closed", Site(hosts=["here"]), 1, retries, cases, blocks)
