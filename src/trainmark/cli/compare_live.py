"""`trainmark compare --live`: A and B are run anew, block by block in turns, and then compared."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark import api
from trainmark.cli import common, drive, terminal
from trainmark.errors import STOPPED, UserError
from trainmark.i18n import words
from trainmark.i18n.texts import label
from trainmark.report.show import format_of
from trainmark.run.stop import StopSwitch, on_signals
from trainmark.spec.notation import parse_share
from trainmark.spec.states import JobState

if TYPE_CHECKING:
    from trainmark.plan.records import Plan
    from trainmark.run.campaign import Campaign, Step
    from trainmark.run.stop import Switch
    from trainmark.store.rundir import RunDir

# Options that say what is run; without `--live` nothing is.
_ONLY_LIVE = ("rounds", "site", "site_b", "set", "set_b", "preset", "seconds", "seed", "no_check")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--live",
        action="store_true",
        help="run A and B anew, in turns, and compare these runs; A and B are runs, RUN:CASE, case ids or suites",
    )
    group = parser.add_argument_group("with --live")
    group.add_argument(
        "--rounds", type=int, metavar="N", help="rounds of each case and side (default: as A and B say, at least 5)"
    )
    group.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    group.add_argument("--site-b", type=Path, metavar="FILE", help="the site of B, where it is another one")
    group.add_argument(
        "--preset", metavar="NAME", help="size of cases that are given by id, on both sides (default: quick)"
    )
    common.add_set(group)
    group.add_argument(
        "--set-b", action="append", default=[], metavar="KEY=VALUE", help="set a parameter of every case of B"
    )
    common.add_seed(group)
    common.add_seconds(group)
    common.add_no_check(group)


def refuse(args: argparse.Namespace) -> None:
    """Options that would be passed over without a word."""
    for name in _ONLY_LIVE:
        if getattr(args, name) not in (None, [], False):
            raise UserError(f"--{name.replace('_', '-')} is for --live: finished runs are compared as they are")


def begin(args: argparse.Namespace) -> int:
    from trainmark.campaigns import live

    if args.why:
        raise UserError("--why is for two diagnostic runs that were made; leave out --live")
    judging = live.Judging(
        api.known_metric(args.metric),
        parse_share(args.margin, "--margin"),
        parse_share(args.threshold, "--fail-over", zero=True),
        args.force,
    )
    made = live.create(
        api.live_plans(
            args.sides,
            args.runs,
            site=args.site,
            site_b=args.site_b,
            set=common.overrides(args),
            set_b=common.pairs(args.set_b, "--set-b"),
            preset=args.preset,
            seconds=args.seconds,
            seed=args.seed,
        ),
        args.runs,
        judging,
        rounds=args.rounds,
        seed=args.seed,
        check=not args.no_check,
        command=drive.command(args),
    )
    return _carry_on(made, args, format_of(args.format, args.output), args.output)


def go_on(made: Campaign, args: argparse.Namespace) -> int:
    if args.detach or args.allow_skip:
        raise UserError(f"{made.name} is a comparison, which goes on here: leave out --detach and --allow-skip")
    return _carry_on(made, args, "json" if args.json else "text", None)


def _carry_on(made: Campaign, args: argparse.Namespace, kind: str, output: Path | None) -> int:
    from trainmark.campaigns import live
    from trainmark.cli import compare

    # Progress goes where the verdict does not.
    args.json = kind != "text" and output is None

    def watched(step: Step, run: RunDir, plan: Plan, switch: Switch) -> JobState:
        side, block = step.arguments["side"], live.blocks_of(step)
        turn = label("progress.turn", block, asked.blocks, side)
        return drive.watched(run, plan, args, switch, block, turn) or JobState.CANCELLED

    asked, out = live.asked_of(made), terminal.err if args.json else terminal.out
    for side, name in zip("AB", asked.runs, strict=True):
        out(f"{side}  {made.folder.parent / Path(name).name}\n")

    switch = StopSwitch()
    with on_signals(switch):
        found = live.go(made, watched, switch)
    if found is None:
        line = words.phrase("stopped; `{0}` goes on where it ended", args.language)
        terminal.err(line.replace("{0}", f"trainmark resume {made.name}") + "\n")
        return STOPPED
    judging = msgspec.structs.asdict(asked.judging)
    record = api.compare(*(str(run.path) for run in found), runs=args.runs, **judging).record
    if not args.json:
        terminal.out("\n")
    compare.write(record, kind, output, args)
    return compare.exit_code(record)
