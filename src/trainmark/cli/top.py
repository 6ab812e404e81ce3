"""`trainmark top`: what runs now, and what it does to the machine."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from trainmark.cli import common
from trainmark.cli.list import table
from trainmark.errors import UserError
from trainmark.plan.records import CasePlan, RoundRef
from trainmark.report.build import present_state
from trainmark.run import progress, session
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.rundir import SAMPLES, RunDir
from trainmark.store.state import Attempt

# Only the newest runs can be running; older ones are not looked at again each second.
NEWEST = 20


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_runs(parser)
    parser.add_argument("--once", action="store_true", help="print once and end (also when piped)")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="time between two looks (default: 1)")


def call(args: argparse.Namespace) -> int:
    if args.once or not sys.stdout.isatty():
        sys.stdout.write(screen(args.runs))
        return 0
    from rich.live import Live
    from rich.text import Text

    with Live(Text(screen(args.runs)), screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(max(0.2, args.seconds))
            live.update(Text(screen(args.runs)), refresh=True)


def screen(runs: Path) -> str:
    rows = [row for run in rundir.run_ids(runs)[-NEWEST:] for row in _running(RunDir(runs / run))]
    return table(rows) or f"nothing runs in {runs.resolve()}\n"


def _running(run: RunDir) -> list[dict[str, Any]]:
    try:
        state = session.state_of(run, run.manifest().plan)
    except UserError:
        return []  # `list` tells what is wrong with it
    # Its agents may go on without one, up to their own deadlines.
    owned = present_state(run, state) is JobState.RUNNING
    note = "" if owned else f"no controller: `{common.resume_line(run, state.plan)}`"
    return [_row(run, state.plan.cases[ref.case], ref, attempt, note) for ref, attempt in state.open_attempts()]


def _row(run: RunDir, case: CasePlan, ref: RoundRef, attempt: Attempt, note: str) -> dict[str, Any]:
    folder = run.attempt(case, ref, attempt.number)
    seen = progress.look(folder, case)
    sample = last_sample(folder)
    return {
        "run": run.id,
        "case": case.case,
        "round": f"{ref.round}/{case.repeat}",
        "step": f"{seen.step}/{seen.steps or '?'}" if seen else "–",
        "rate": f"{seen.rate:,.1f} {case.unit}/s" if seen and seen.rate is not None else "–",
        "cpu": _share(sample.get("cpu")),
        "steal": _share(sample.get("steal")),
        "memory": f"{sample['mem_used'] / 2**30:.1f} GiB" if sample.get("mem_used") is not None else "–",
        "time": progress.duration(seen.uptime) if seen else "–",
        "note": note,
    }


def last_sample(attempt_dir: Path) -> dict[str, Any]:
    """The newest sample of the first node; empty before there is one."""
    for file in sorted(attempt_dir.glob(f"*/{SAMPLES}")):
        for line in reversed(file.read_bytes().splitlines()[1:]):
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            return found if isinstance(found, dict) else {}
    return {}


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"
