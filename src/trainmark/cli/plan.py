"""`trainmark plan`: the dry run."""

from __future__ import annotations

import argparse

from trainmark.cli import common, terminal
from trainmark.cli.explain import length_text
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import CasePlan, Plan
from trainmark.run import estimate, progress
from trainmark.spec.case_id import value_text
from trainmark.store import secrets

_DAY = 86400


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser)
    common.add_seconds(parser)
    parser.add_argument("--json", action="store_true", help="print the whole plan as JSON")


def call(args: argparse.Namespace) -> int:
    plan = secrets.masked(common.make_plan(args))[0]
    if args.json:
        terminal.json(plan, indent=1)
    else:
        terminal.tell(text(plan, drawn=args.seed is None))
    return 0


def text(plan: Plan, *, drawn: bool) -> str:
    lines = [
        f"suite {plan.suite}  site {plan.site.name} ({plan.site.launcher})  seed {plan.seed}  division {plan.division}",
        "(without --seed, `run` draws another order)" if drawn else "",
        "",
    ]
    for number, block in enumerate(plan.blocks, 1):
        order = ", ".join(f"{plan.cases[ref.case].case} round {ref.round}" for ref in block)
        lines.append(f"block {number}: {order}")
    for case in plan.cases:
        lines += ["", *_case(case)]
    lines += ["", *_time(plan)]
    preview = launcher_of(plan.site).preview(plan)
    lines += ["", *preview] if preview else []
    return "\n".join(lines) + "\n"


def _time(plan: Plan) -> list[str]:
    """How long all of it may take, or what nobody can tell."""
    each = [estimate.round_seconds(case) for case in plan.cases]
    unknown = [case for case, seconds in zip(plan.cases, each, strict=True) if seconds is None]
    if unknown:
        return [f"{case.case}: no estimate of time: {estimate.why_unknown(case)}" for case in unknown]
    seconds = sum(each[ref.case] or 0.0 for ref in plan.order)
    limit = "" if plan.within is None else f"; after {plan.within:g} s no case gets a further round"
    basis = "on an ordinary machine"
    if any(estimate.is_rough(case) for case in plan.cases):
        basis = "very roughly, by the size of the models and what the devices can do"
    long = f"{seconds / _DAY:,.0f} days" if seconds > 3 * _DAY else progress.duration(seconds)
    return [f"about {long} {basis}{limit}"]


def _case(case: CasePlan) -> list[str]:
    lines = [f"{case.case}  fingerprint {case.fingerprint}  preset {case.preset}"]
    lines.append(f"  data {case.data or '–'}  unit {case.unit}  probe {'yes' if case.probe else 'no'}")
    lines.append(f"  {length_text(case.length)}")
    if case.auto is not None:
        lines.append(f"  rounds: {case.auto.min} to {case.auto.max}, as many as ±{100 * case.auto.width:g} % takes")
    times = case.deadlines
    named = {"start": times.start, "step": times.step, "total": times.total, "stop": times.stop}
    lines.append("  deadlines: " + ", ".join(f"{name} {seconds:.10g} s" for name, seconds in named.items()))
    lines.append("  parameters: " + ", ".join(f"{name}={value_text(value)}" for name, value in case.params.items()))
    lines += [f"  port {number}: {port or 'any free one'}" for number, port in enumerate(case.ports)]
    lines += [f"  env {name}={value}" for name, value in case.env.items()]
    for node in case.nodes:
        lines.append(f"  node {node.index} {node.host or '(chosen when it starts)'}")
        processes = [(helper.name, helper.argv, helper.env) for helper in node.helpers]
        processes += [(f"rank {rank.rank}", rank.argv, rank.env) for rank in node.ranks]
        for who, argv, env in processes:
            lines.append(f"    {who}: {' '.join(argv)}")
            lines.append("      " + " ".join(f"{name}={value}" for name, value in env.items()))
    return lines
