"""`trainmark goodput`: how much of a job's time is training."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from pathlib import Path

import msgspec

from trainmark.cli import common, drive
from trainmark.errors import UserError
from trainmark.launch.protocol import Ended, launcher_of
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.run import session
from trainmark.run.observers import Observer
from trainmark.spec.states import JobState
from trainmark.store.files import read_json
from trainmark.store.rundir import STATUS, RunDir

EPILOG = """\
examples:
  trainmark goodput last                                        a run that was made already
  trainmark goodput mnist:pytorch:cpu:1:2:1 --kill 1            kills rank 1 after two checkpoints, lets it recover
  trainmark goodput last --failures-per-day 2 --hours 720       what that means for a month
"""
_CHECKPOINTS = 5
_RETRIES = 3


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_suite(parser, "a case id, a suite, or a run (id, its start or end, folder, `last`)")
    common.add_runs(parser)
    parser.add_argument("--kill", type=int, metavar="RANK", help="kill this rank once, after its second checkpoint")
    parser.add_argument("--failures-per-day", type=float, metavar="N", help="of the whole job, for a forecast")
    parser.add_argument("--hours", type=float, default=24.0, metavar="H", help="length of that job (default: 24)")
    parser.add_argument(
        "--save-every", type=float, metavar="SECONDS", help="between its checkpoints (default: as seen)"
    )
    drive.add_options(parser)
    drive.add_finish(parser)


def call(args: argparse.Namespace) -> int:
    _check(args)
    if args.finish is not None:
        return _drive(RunDir(args.finish), args)
    named = common.named_run(args)
    if named is not None:
        if args.kill is not None:
            raise UserError(f"--kill: {named[0].id} is over; name a case instead of a run")
        _write(named[0], args, named[1])
        return 0
    plan = _plan(common.make_plan(args), args.kill)
    common.check_runs(plan, args)
    return _drive(drive.create(plan, args), args)


def _drive(run: RunDir, args: argparse.Namespace) -> int:
    killer = None if args.kill is None else Killer(args.kill)
    return drive.drive(run, run.manifest().plan, args, show=_write, beside=killer)


def _check(args: argparse.Namespace) -> None:
    for name in ("failures_per_day", "hours", "save_every"):
        value = getattr(args, name)
        if value is not None and not (0 < value < math.inf):
            raise UserError(f"--{name.replace('_', '-')}: found {value}, allowed is a number above 0")


def _plan(plan: Plan, kill: int | None) -> Plan:
    """One round of each case, with checkpoints, that goes on when it is cut off."""
    if kill is not None and not launcher_of(plan.site).this_machine:
        raise UserError("--kill: only on this machine; elsewhere, end a process or a host yourself while it runs")
    cases = tuple(_case(case, kill) for case in plan.cases)
    blocks = (tuple(RoundRef(index, 1) for index in range(len(cases))),)
    return msgspec.structs.replace(
        plan, kind="goodput", cases=cases, blocks=blocks, width=1, recover=True, retries=_RETRIES
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
    return msgspec.structs.replace(case, params=params, repeat=1, auto=None)


class Killer(Observer):
    """Watches the loop, and kills one rank of each case once, by its pid, when it has something to go on from."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._struck = False

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:  # noqa: ARG002
        """One round after the other; it is too early to kill, for there is nothing to go on from."""
        self._struck = self._struck and attempt > 1

    def tick(self, attempt_dir: Path) -> None:
        if self._struck or _saved(attempt_dir.parent) < 2:
            return
        for file in attempt_dir.glob(f"*/{STATUS}"):
            status = read_json(file)
            for rank in status.get("ranks", []) if isinstance(status, dict) else []:
                if rank.get("rank") == self._rank and rank.get("state") == "running":
                    self._struck = True
                    os.kill(int(rank["pid"]), signal.SIGKILL)

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:  # noqa: ARG002
        if not self._struck and ended.state is JobState.SUCCEEDED:
            sys.stderr.write(
                f"warning: {case.case}: rank {self._rank} was not killed: all had ended soon after the second "
                "checkpoint; set more steps\n"
            )


def _saved(round_dir: Path) -> int:
    """Whole checkpoints, of any framework."""
    return sum(file.suffix != ".half" for file in round_dir.glob("checkpoints/*/step-*"))


def _write(run: RunDir, args: argparse.Namespace, begins: str = "") -> None:
    from trainmark.report import goodput as reading
    from trainmark.score.studies.goodput import forecast

    tried = reading.of_run(run, session.state_of(run, run.manifest().plan))
    found = [one for one in tried if one.case.startswith(begins)]
    if not found:
        raise UserError(f"{run.id}: nothing was tried yet")
    rate = args.failures_per_day
    told = [None if rate is None else forecast(one, rate, args.hours, args.save_every) for one in found]
    if args.json:
        cases = [{"goodput": one, "forecast": more} for one, more in zip(found, told, strict=True)]
        sys.stdout.buffer.write(msgspec.json.encode({"run": run.id, "dir": str(run.path), "cases": cases}) + b"\n")
        return
    sys.stdout.write("\n" + "\n".join(reading.text(one, more) for one, more in zip(found, told, strict=True)))
    drawn = f"; `trainmark report {run.id} --format html` draws it" if run.manifest().plan.kind == "goodput" else ""
    sys.stdout.write(f"\nkept in {run.path}{drawn}\n")
