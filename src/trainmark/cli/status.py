"""`trainmark status`."""

from __future__ import annotations

import argparse
from typing import Any

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.i18n.speaker import say
from trainmark.i18n.texts import label
from trainmark.report.render.data import to_json_line
from trainmark.run import control
from trainmark.run.control import RoundStatus, RunStatus
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    run = common.find_run(args)
    found = control.status(run)
    state = shown_state(run, found)
    owner = "" if found.owner is None else f"owner {found.owner}, epoch {found.owner.epoch}"
    rounds = rows(found, "en" if args.json else args.language)
    if args.json:
        reasons = [{**row, "reason": one.reason} for row, one in zip(rounds, found.rounds, strict=True)]
        terminal.out(to_json_line({"run": run.id, "state": state, "owner": owner, "rounds": reasons}))
    else:
        terminal.out(terminal.said(f"run {run.id}  {state}  {owner}\n\n") + table(rounds))
    return 0


def shown_state(run: RunDir, found: RunStatus) -> str:
    if found.state is not JobState.LOST:
        return str(found.state)
    return f"LOST: its controller is gone; `{common.resume_line(run, run.manifest().plan)}` goes on"


def rows(found: RunStatus, language: str = "en") -> list[dict[str, Any]]:
    return [_row(one, language) for one in found.rounds]


def _row(one: RoundStatus, language: str) -> dict[str, Any]:
    what = say(one.reason, language)
    if one.state is JobState.RUNNING:
        what = say(one.progress.told(one.unit) if one.progress else label("progress.starting"), language)
    return {"case": one.case, "round": one.round, "attempt": one.attempt, "state": str(one.state), "what": what}
