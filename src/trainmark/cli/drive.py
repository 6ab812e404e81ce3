"""Driving a run from the command line: in the foreground or in the background, with the result at the end."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from trainmark.cli import common, terminal
from trainmark.errors import CASE_FAILED, OK, STOPPED
from trainmark.i18n import words
from trainmark.i18n.texts import Text
from trainmark.launch.protocol import launcher_of
from trainmark.plan.records import Plan
from trainmark.report.run_log import logged
from trainmark.run import background, campaign, machine, session
from trainmark.run.busy import busy_machine
from trainmark.run.lease import LostLease
from trainmark.run.observers import Observer
from trainmark.run.stop import StopSwitch, Switch, on_signals
from trainmark.spec.states import JobState
from trainmark.store import rundir
from trainmark.store.rundir import RunDir

# Shows the result of a run; gives the exit code of a run whose rounds all succeeded.
Show = Callable[[RunDir, argparse.Namespace], int]
# The observer of a run → the same with others beside it.
Beside = Callable[[Observer], Observer]
# Runs of these kinds tell of other things than speeds.
_SHOWS = {
    "automl": "trainmark.cli.automl.run:show",
    "diagnosis": "trainmark.cli.diagnose:show",
    "goodput": "trainmark.cli.goodput:show",
    "peaks": "trainmark.cli.peaks:show",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end, progress to stderr")
    parser.add_argument("--detach", action="store_true", help="go on in the background; survives a lost connection")
    parser.add_argument(
        "--allow-skip",
        action="store_true",
        help="skip cases that the site is too small for; exit 0 although cases were skipped, if others succeeded",
    )


def create(plan: Plan, args: argparse.Namespace) -> RunDir:
    """A new run in `--runs`. Nothing is started."""
    return session.create(plan, args.runs.resolve(), command(args), Path.cwd())


def command(args: argparse.Namespace) -> list[str]:
    """The command line, as a run's manifest records it."""
    return ["trainmark", *args.argv]


def drive(run: RunDir, plan: Plan, args: argparse.Namespace) -> int:
    """Drives a run of any kind, new or resumed, and shows what came of it."""
    if args.detach:
        return _detach(run, args)
    if rundir.is_of_test(run):
        from trainmark.cli import tester

        return tester.drive(run, plan, args, lambda beside: _in_foreground(run, plan, args, beside))
    return _in_foreground(run, plan, args)


def _in_foreground(run: RunDir, plan: Plan, args: argparse.Namespace, beside: Beside = lambda one: one) -> int:
    switch = StopSwitch()
    with on_signals(switch):
        final = watched(run, plan, args, switch, beside=beside)
        if final is None:
            return STOPPED
        code = _show_result(run, plan, args)
        _hint(run, plan, final, args)
        return exit_code(final, allow_skip=args.allow_skip and _measured(run, plan)) or code


def watched(
    run: RunDir,
    plan: Plan,
    args: argparse.Namespace,
    switch: Switch,
    blocks: int | None = None,
    heading: Text | None = None,
    beside: Beside = lambda one: one,
) -> JobState | None:
    """Drives a run in the foreground and shows how far it is. None: another controller has it now. `blocks`: only the
    first so many. `heading`: what stands above its progress instead of its name and folder. `beside`: adds one that
    observes it, too."""
    observer = _terminal_observer(run, plan, args, heading)
    try:
        return logged(run, observer, lambda observer: _driven(run, plan, beside(observer), switch, blocks, args))
    except LostLease as error:
        terminal.err(f"trainmark: {error}; this controller ends\n")
        return None


def _driven(
    run: RunDir, plan: Plan, observer: Observer, switch: Switch, blocks: int | None, args: argparse.Namespace
) -> JobState:
    """Once its hosts are free of other runs; with a word beforehand when others work on the machine to be measured."""
    first = blocks is None or blocks == 1
    busy = busy_machine() if first and launcher_of(plan.site).this_machine else None
    if busy is not None:
        observer.note(busy)
    epoch = getattr(args, "after_epoch", None)
    return campaign.drive(run, plan, observer, switch, blocks, epoch, patient=machine.wait_asked())


def _show_result(run: RunDir, plan: Plan, args: argparse.Namespace) -> int:
    """Nobody may be there any more to see it: what happened to the run is still in the exit code."""
    with contextlib.suppress(OSError):
        try:
            code = _show_of(plan)(run, args)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            pass
        except OSError as error:
            terminal.err(f"trainmark: the result could not be shown: {error.strerror}; it is in {run.path}\n")
    return OK


def _hint(run: RunDir, plan: Plan, final: JobState, args: argparse.Namespace) -> None:
    """What one may want to do next, for a person; a closed terminal does not matter any more."""
    if final is not JobState.CANCELLED or args.json or args.log_level in ("warning", "error"):
        return
    with contextlib.suppress(OSError):
        line = words.phrase("stopped; `{0}` goes on where it ended", args.language)
        terminal.err(line.replace("{0}", common.resume_line(run, plan)) + "\n")


def _show_of(plan: Plan) -> Show:
    module, _, name = _SHOWS.get(plan.kind, "").partition(":")
    show: Show = getattr(importlib.import_module(module), name) if module else _show
    return show


def _measured(run: RunDir, plan: Plan) -> bool:
    """Whether any case was run: nobody who allows cases to be skipped means all of them."""
    state = session.state_of(run, plan)
    return any(state.case_outcome(index)[0] is JobState.SUCCEEDED for index in range(len(plan.cases)))


def exit_code(final: JobState, *, allow_skip: bool) -> int:
    if final is JobState.SUCCEEDED or (final is JobState.SKIPPED and allow_skip):
        return OK
    return STOPPED if final is JobState.CANCELLED else CASE_FAILED


def _show(run: RunDir, args: argparse.Namespace) -> int:
    from trainmark.report.make.whole import whole
    from trainmark.report.show import show

    report = whole(run)
    terminal.out(show(report, "json-line") if args.json else "\n" + show(report, "text", args.language))
    return OK


def _terminal_observer(run: RunDir, plan: Plan, args: argparse.Namespace, heading: Text | None) -> Observer:
    out = sys.stderr if args.json else sys.stdout
    if plan.kind == "automl":
        from trainmark.cli.automl.run import Progress

        return Progress(out)
    from trainmark.cli import progress

    quiet = args.log_level in ("warning", "error")
    return progress.choose(out, run, plan, quiet=quiet, language=args.language, heading=heading)


def _detach(run: RunDir, args: argparse.Namespace) -> int:
    """The run is made; a process of its own drives it, as `resume` would, and writes only to the run's log."""
    background.start(run, ["resume", "--log-level", "warning", str(run.path)])
    if args.json:
        terminal.out(msgspec.json.encode({"run": run.id, "dir": str(run.path), "detached": True}).decode() + "\n")
        return OK
    terminal.out(
        f"{run.id}\nruns in the background: `trainmark status {run.id}`, `trainmark logs -f {run.id}`, "
        f"`trainmark stop {run.id}`\n"
    )
    return OK
