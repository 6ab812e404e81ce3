"""Driving a run from the command line: in the foreground or in the background, with the result at the end."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from trainmark.errors import CASE_FAILED, OK, STOPPED, SiteError, UserError
from trainmark.plan.records import Plan
from trainmark.run import background, session
from trainmark.run.lease import LostLease
from trainmark.run.observers import Observer, Observers, RunLog
from trainmark.run.stop import StopSwitch, on_signals
from trainmark.spec.states import JobState
from trainmark.store.rundir import RUN_LOG, RunDir

# What drives a run, and what shows its result.
Work = Callable[[Observer, StopSwitch], JobState]
Show = Callable[[RunDir, argparse.Namespace], object]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end, progress to stderr")
    parser.add_argument("--detach", action="store_true", help="go on in the background; survives a lost connection")
    parser.add_argument("--allow-skip", action="store_true", help="exit 0 when the only flaw is a skipped case")


def add_finish(parser: argparse.ArgumentParser) -> None:
    """For verbs that do more at the end than `resume` would: how their background process names the run it drives."""
    parser.add_argument("--finish", type=Path, help=argparse.SUPPRESS)


def create(plan: Plan, args: argparse.Namespace) -> RunDir:
    """A new run in `--runs`. Nothing is started."""
    return session.create(plan, args.runs.resolve(), command(args), Path.cwd())


def command(args: argparse.Namespace) -> list[str]:
    """The command line, as a run's manifest records it."""
    return ["trainmark", *args.argv]


def drive(
    run: RunDir,
    plan: Plan,
    args: argparse.Namespace,
    work: Work | None = None,
    show: Show | None = None,
    watch: Observer | None = None,
    beside: Observer | None = None,
    resume: Sequence[str] = ("resume",),
) -> int:
    """`work`, `show`, `watch`: for runs that need more than the loop, or tell of other things than rounds. `beside`
    observes, too. `resume`: the verb that goes on with such a run."""
    if args.detach:
        return _detach(run, args, resume)
    switch = StopSwitch()
    with on_signals(switch):
        observer = watch or terminal_observer(run, plan, args)
        if beside is not None:
            observer = Observers(observer, beside)
        drives: Work = work or (lambda observer, switch: session.drive(run, plan, observer, switch))
        final = _driven(run, observer, lambda observer: drives(observer, switch))
        if final is None:
            return STOPPED
        _show_result(run, args, show or _show)
        return exit_code(final, allow_skip=args.allow_skip)


def watched(run: RunDir, plan: Plan, args: argparse.Namespace, switch: StopSwitch) -> JobState | None:
    """Drives a run in the foreground and shows how far it is. None: another controller has it now."""
    return _driven(run, terminal_observer(run, plan, args), lambda observer: session.drive(run, plan, observer, switch))


def _driven(run: RunDir, observer: Observer, work: Callable[[Observer], JobState]) -> JobState | None:
    log = RunLog(run.path / RUN_LOG)
    try:
        return work(Observers(log, observer))
    except LostLease as error:
        sys.stderr.write(f"trainmark: {error}; this controller ends\n")
        return None
    except (UserError, FileNotFoundError) as error:
        if not run.path.is_dir():
            raise SiteError(f"the folder of the run was removed while it ran: {run.path}; start it anew") from None
        if isinstance(error, UserError):
            log.note(f"error: {error}")
        raise
    finally:
        observer.close()


def _show_result(run: RunDir, args: argparse.Namespace, show: Show) -> None:
    """Nobody may be there any more to see it: what happened to the run is still in the exit code."""
    with contextlib.suppress(OSError):
        try:
            show(run, args)
            sys.stdout.flush()
        except BrokenPipeError:
            pass
        except OSError as error:
            sys.stderr.write(f"trainmark: the result could not be shown: {error.strerror}; it is in {run.path}\n")


def exit_code(final: JobState, *, allow_skip: bool) -> int:
    if final is JobState.SUCCEEDED or (final is JobState.SKIPPED and allow_skip):
        return OK
    return STOPPED if final is JobState.CANCELLED else CASE_FAILED


def _show(run: RunDir, args: argparse.Namespace) -> None:
    from trainmark.report import build, text

    report = build.build(run)
    if args.json:
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    else:
        sys.stdout.write("\n" + text.render(report))


def terminal_observer(run: RunDir, plan: Plan, args: argparse.Namespace) -> Observer:
    from trainmark.cli import progress

    out = sys.stderr if args.json else sys.stdout
    quiet = args.log_level in ("warning", "error")
    return progress.choose(out, run, plan, quiet=quiet)


def _detach(run: RunDir, args: argparse.Namespace, resume: Sequence[str]) -> int:
    """The run is made; a process of its own drives it, as `resume` would, and writes only to the run's log."""
    if hasattr(args, "finish"):
        words = [word for word in args.argv if word != "--detach"]
        background.start(run, [*words, "--finish", str(run.path), "--log-level", "warning"])
    else:
        background.start(run, [resume[0], "--log-level", "warning", *resume[1:], str(run.path)])
    if args.json:
        sys.stdout.write(msgspec.json.encode({"run": run.id, "dir": str(run.path), "detached": True}).decode() + "\n")
        return OK
    sys.stdout.write(
        f"{run.id}\nruns in the background: `trainmark status {run.id}`, `trainmark logs -f {run.id}`, "
        f"`trainmark stop {run.id}`\n"
    )
    return OK
