"""Driving a run from the command line: in the foreground or detached, with the result at the end."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.errors import CASE_FAILED, OK, STOPPED, SiteError, UserError
from trainmark.plan.records import Plan
from trainmark.run import session
from trainmark.run.lease import LostLease
from trainmark.run.views import Both, LogView
from trainmark.spec.states import JobState
from trainmark.store.rundir import RUN_LOG, RunDir

if TYPE_CHECKING:
    from trainmark.run.stop import Signals
    from trainmark.run.words import View


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end, progress to stderr")
    parser.add_argument("--detach", action="store_true", help="go on in the background; survives a lost connection")
    parser.add_argument("--allow-skip", action="store_true", help="exit 0 when the only flaw is a skipped case")


# What drives a run, seen by a view; and what shows its result.
Work = Callable[["View"], JobState]
Show = Callable[[RunDir, argparse.Namespace], object]


def drive(
    run: RunDir,
    plan: Plan,
    args: argparse.Namespace,
    work: Work | None = None,
    show: Show | None = None,
    watch: View | None = None,
    beside: View | None = None,
) -> int:
    """`work`, `show`, `watch`: for runs that need more than the loop, or tell of other things than rounds. `beside`
    watches, too."""
    work = work or (lambda view: session.drive(run, plan, view))
    if args.detach:
        return _detached(run, args, work, show or _show, beside)
    view = watch or _terminal_view(run, plan, args)
    return _foreground(run, args, view if beside is None else Both(view, beside), work, show or _show)


def watched(run: RunDir, plan: Plan, args: argparse.Namespace, heard: Signals) -> JobState | None:
    """Drives a run in the foreground and shows how far it is. None: another controller has it now."""
    return _driven(run, _terminal_view(run, plan, args), lambda view: session.drive(run, plan, view, heard=heard))


def _foreground(run: RunDir, args: argparse.Namespace, view: View, work: Work, show: Show) -> int:
    final = _driven(run, view, work)
    if final is None:
        return STOPPED
    # Whoever wanted the result may have gone: what happened to the run is still told by the exit code.
    with contextlib.suppress(OSError):
        try:
            show(run, args)
            sys.stdout.flush()
        except BrokenPipeError:
            pass
        except OSError as error:
            sys.stderr.write(f"trainmark: the result could not be shown: {error.strerror}; it is in {run.path}\n")
    return exit_code(final, allow_skip=args.allow_skip)


def _driven(run: RunDir, view: View, work: Work) -> JobState | None:
    log = LogView(run.path / RUN_LOG)
    try:
        return work(Both(log, view))
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
        close = getattr(view, "close", None)
        if close is not None:
            close()


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


def _terminal_view(run: RunDir, plan: Plan, args: argparse.Namespace) -> View:
    from trainmark.cli import progress

    out = sys.stderr if args.json else sys.stdout
    quiet = args.log_level in ("warning", "error")
    return progress.choose(out, run, plan, quiet=quiet)


def _detached(run: RunDir, args: argparse.Namespace, work: Work, show: Show, beside: View | None) -> int:
    """A controller in a session of its own. The parent returns once it is known to own the run."""
    ready, told = os.pipe()
    sys.stdout.flush()
    if os.fork():
        os.close(told)
        if os.read(ready, 1) != b"+":
            raise UserError(f"the background controller could not start; see {run.path / RUN_LOG}")
        _announce(run, args)
        return OK
    os.close(ready)
    os.setsid()
    if os.fork():
        os._exit(0)
    _redirect(run.path / RUN_LOG)
    view = _Ready(told)
    code = _foreground(run, args, view if beside is None else Both(view, beside), work, show)
    view.tell()  # there may have been nothing to do
    sys.stdout.flush()
    os._exit(code)


def _announce(run: RunDir, args: argparse.Namespace) -> None:
    if args.json:
        sys.stdout.write(msgspec.json.encode({"run": run.id, "dir": str(run.path), "detached": True}).decode() + "\n")
        return
    sys.stdout.write(
        f"{run.id}\nruns in the background: `trainmark status {run.id}`, `trainmark logs -f {run.id}`, "
        f"`trainmark stop {run.id}`\n"
    )


def _redirect(log: Path) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)


class _Ready:
    """Tells the waiting parent that the loop is under way; watches nothing else."""

    def __init__(self, told: int) -> None:
        self._told: int | None = told

    def tell(self) -> None:
        if self._told is not None:
            os.write(self._told, b"+")
            os.close(self._told)
            self._told = None

    def started(self, *_: object) -> None:
        self.tell()

    def tick(self, *_: object) -> None:
        self.tell()

    def ended(self, *_: object) -> None:
        self.tell()

    def note(self, *_: object) -> None:
        """Notes may come before the lease is held."""
