"""`trainmark explain`: every value of a case and the layer that set it."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from trainmark.agent.secrets import without_settings
from trainmark.cli import common, terminal
from trainmark.errors import UserError, did_you_mean
from trainmark.launch.sites import for_suite
from trainmark.report.render.text import columns
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.band import batch_per_rank, global_batch
from trainmark.spec.case import Case
from trainmark.spec.case_id import value_text
from trainmark.spec.length import Length
from trainmark.spec.shape import MODEL, image_size, sequence_length


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("case", metavar="CASE", help="a case id, alone or of --suite")
    parser.add_argument("--suite", metavar="SUITE", help="look the case up in this suite (name or file)")
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    parser.add_argument("--preset", metavar="NAME", help="preset of a case that is in no suite (default: quick)")
    common.add_set(parser)
    common.add_seconds(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    case = _find(args)
    if args.json:
        shown = without_settings(case.values)
        found = {
            "case": str(case.id),
            "fingerprint": case.fingerprint,
            "preset": case.preset,
            "division": case.division,
            "data": case.data,
            "checkpoint": case.checkpoint,
            "parameters": {
                name: {"value": shown[name], "origin": setting.origin} for name, setting in case.params.items()
            },
            "deadlines": msgspec.to_builtins(case.deadlines),
            "length": msgspec.to_builtins(case.length),
        }
        terminal.json(found, indent=1)
    else:
        terminal.tell(text(case))
    return 0


def _find(args: argparse.Namespace) -> Case:
    site = common.load_site(args)
    if args.suite is None:
        loaded = common.with_seconds(suites.single(args.case, args.preset or "quick"), args)
        return suite_cases.expand(loaded, for_suite(loaded, site), common.overrides(args))[0]
    if args.preset is not None:
        raise UserError("--preset is for a case that is in no suite; a suite names its own preset")
    loaded = common.with_seconds(suites.load(suites.find(args.suite)), args)
    cases = suite_cases.expand(loaded, for_suite(loaded, site), common.overrides(args))
    for case in cases:
        if args.case in (str(case.id), case.id.identity) or args.case == case.id.workload:
            return case
    ids = [str(case.id) for case in cases]
    raise UserError(f"suite `{args.suite}` has no case `{args.case}`{did_you_mean(args.case, ids)}")


def _trained(case: Case) -> str:
    """The size that this preset has, whatever its title says of others."""
    params, world = case.values, case.id.nnodes * case.id.nproc
    sizes = [f"{name} {value_text(params[name])}" for name in MODEL if name in params]
    for name, size in (("sequence length", sequence_length(params)), ("image size", image_size(params))):
        sizes += [f"{name} {size}"] if size else []
    batch = batch_per_rank(params)
    if batch:
        sizes.append(f"batch {batch} per rank, {global_batch(params, world)} in all")
    sizes += [str(params["dtype"])] if "dtype" in params else []
    return f"preset {case.preset}" + (f": {', '.join(sizes)}" if sizes else "")


def length_text(length: Length | None) -> str:
    """How long a round of it trains."""
    if length is None:
        return "a round makes the steps of its parameters"
    first = "the steps of the preset, then on" if length.whole else "steps"
    return (
        f"a round makes {first} until {length.steps} steps and {length.seconds:g} s are measured after the warm-up; "
        f"where that takes more than about {length.most:g} s in all, it ends early and its figure is flagged"
    )


def text(case: Case) -> str:
    workload, shown = case.found.workload, without_settings(case.values)
    lines = [
        str(case.id),
        f"  {terminal.cell(workload.title)}",
        f"  {_trained(case)}",
        f"  {length_text(case.length)}",
        "",
    ]
    rows = [("parameter", "value", "from", "", "meaning")]
    for name, setting in case.params.items():
        parameter = workload.parameters[name]
        locked = "locked" if parameter.locked else ""
        rows.append((name, value_text(shown[name]), setting.origin, locked, parameter.help))
    lines += [f"  {line}" for line in columns([[terminal.cell(cell) for cell in row] for row in rows])]
    lines += ["", f"  preset       {case.preset} (of {', '.join(workload.presets)})"]
    lines.append(f"  division     {case.division}" + (f", changed: {', '.join(case.opened)}" if case.opened else ""))
    lines.append(f"  data         {case.data or 'none'}")
    if case.checkpoint:
        lines.append(f"  checkpoint   {case.checkpoint}")
    times = case.deadlines
    lines.append(
        f"  deadlines    start {times.start:g} s, step {times.step:g} s, total {times.total:g} s, stop {times.stop:g} s"
    )
    if workload.target:
        target = workload.target
        lines.append(f"  target       {target.metric} {'≥' if target.direction == 'up' else '≤'} {target.value:g}")
    lines.append(f"  fingerprint  {case.fingerprint}")
    return "\n".join(lines) + "\n"
