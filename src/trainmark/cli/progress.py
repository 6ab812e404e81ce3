"""Live progress: one changing line on a terminal, plain lines when piped."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from trainmark.i18n.speaker import say
from trainmark.i18n.texts import Text, joined, label
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason
from trainmark.report.render.escape import clean
from trainmark.report.run_log import outcome_line
from trainmark.run import progress, session
from trainmark.run.observers import Observer
from trainmark.run.progress import duration
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

# A piped run says how far it is this often.
PLAIN_SECONDS = 15.0


def choose(
    out: IO[str], run: RunDir, plan: Plan, *, quiet: bool, language: str = "en", heading: Text | None = None
) -> Observer:
    """`heading`: what stands above it instead of the run's name and folder."""
    if quiet:
        return Observer()
    kind = _Live if out.isatty() else _Plain
    shown = heading or label("progress.run", run.id, len(plan.order), plan.seed, run.path)
    return _Guarded(lambda: kind(out, _Counted(run, plan, language), say(shown, language)))


class _Guarded(Observer):
    """Shows what another observer shows until that fails: a lost terminal or pipe is no reason to end a run."""

    def __init__(self, make: Callable[[], Observer]) -> None:
        self._shown = Observer()
        self._try(lambda: setattr(self, "_shown", make()))

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._try(lambda: self._shown.started(case, ref, attempt))

    def tick(self, attempt_dir: Path) -> None:
        self._try(lambda: self._shown.tick(attempt_dir))

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._try(lambda: self._shown.ended(case, ref, ended))

    def waiting(self, ref: RoundRef, waits_for: Reason | None) -> None:
        self._try(lambda: self._shown.waiting(ref, waits_for))

    def note(self, note: Reason) -> None:
        self._try(lambda: self._shown.note(note))

    def close(self) -> None:
        self._try(lambda: self._shown.close())

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (OSError, ValueError):
            self._shown = Observer()


class _Counted:
    """Which round of how many, and how long the rest may take."""

    def __init__(self, run: RunDir, plan: Plan, language: str = "en") -> None:
        self._plan, self._language = plan, language
        # Of a run that goes on, some are over already.
        state = session.state_of(run, plan)
        self._ended = {ref for ref in plan.order if state.is_over(ref) and state.rounds[ref].attempts}
        self._before = frozenset(self._ended)
        self._began = self._started = self._last_end = time.monotonic()
        self._remaining = progress.Remaining(plan)
        self._round_left, self._run_left = progress.CountDown(), progress.CountDown()
        self._attempt = 0
        self._case: CasePlan | None = None
        self._ref: RoundRef | None = None
        self._pace = progress.Pace()
        self._waits: dict[RoundRef, Reason] = {}

    def begin(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._case, self._ref, self._attempt, self._started = case, ref, attempt, time.monotonic()

    def head(self) -> str:
        if self._case is None or self._ref is None:
            return ""
        number = len(self._ended - {self._ref}) + 1
        numbers = self._ref.round, self._case.repeat
        return self.say(label("progress.head", number, len(self._plan.order), self._case.case, *numbers))

    def say(self, text: Text) -> str:
        return say(text, self._language)

    def outcome(self, case: CasePlan, ref: RoundRef, ended: Ended) -> str:
        return outcome_line(case, ref, ended, self._language)

    def wait(self, ref: RoundRef, waits_for: Reason | None) -> None:
        if waits_for is None:
            self._waits.pop(ref, None)
        else:
            self._waits[ref] = waits_for

    def line(self, attempt_dir: Path, width: int | None = None) -> str:
        """`width`: of the terminal, where the line must stay one."""
        if self._case is None or self._ref is None:
            return ""
        if self._ref in self._waits:
            # How long a queue takes is not known.
            return f"{self.head()}  {JobState.PENDING}: {self.say(self._waits[self._ref])}"
        seen = progress.look(attempt_dir, self._case)
        parts: list[Text] = [seen.told(self._case.unit) if seen else label("progress.starting")]
        left = self._pace.seconds_left(attempt_dir, seen, self._case.length) if seen else None
        if left is not None:
            left = self._round_left.of(left, attempt_dir)
            parts += [label("progress.left", duration(left))] if left >= 1 else []
        whole = self._whole_left(left, self._ref)
        if whole is not None and whole >= 1 and len(self._plan.order) > 1:
            parts.append(label("progress.run-left", duration(whole)))
        return _fitting(self.head(), "  " + self.say(joined(*parts, joint="  ")), width)

    def _whole_left(self, round_left: float | None, current: RoundRef) -> float | None:
        """Of the run: this round, and those to come at the pace of their own cases."""
        now, plan = time.monotonic(), self._plan
        if plan.width > 1 or plan.blocks_within is not None:
            # At the pace up to the last round that ended: the one under way is no slower for not being over.
            left = progress.run_left(plan, self._ended, self._last_end - self._began, self._before)
            return None if left is None else max(0.0, left - (now - self._last_end))
        others = self._remaining.seconds([ref for ref in plan.order if ref not in self._ended and ref != current])
        usual = self._remaining.of_case(current.case) if round_left is None else None
        if others is None or (round_left is None and usual is None):
            return None
        this = round_left if round_left is not None else max(0.0, (usual or 0.0) - (now - self._started))
        return max(others, self._run_left.of(this + others, (current, self._attempt)))

    def finish(self, ref: RoundRef, ended: Ended) -> None:
        """A skipped case is over with all its rounds."""
        self._waits.pop(ref, None)
        skipped = ended.state is JobState.SKIPPED
        self._last_end = time.monotonic()
        if not skipped:
            self._remaining.ended(ref, self._last_end - self._started)
        self._ended |= {other for other in self._plan.order if other == ref or (skipped and other.case == ref.case)}


def _fitting(head: str, text: str, width: int | None) -> str:
    """One line: what changes is shown whole, as far as it can be, and the name of the case is cut."""
    if width is None or _columns(head + text) <= width:
        return head + text
    room = width - _columns(text)
    return _cut((_cut(head, room - 1) + "…" if room > 8 else "") + text, width)


def _cut(text: str, width: int) -> str:
    while _columns(text) > max(0, width):
        text = text[:-1]
    return text


def _columns(text: str) -> int:
    """What a text takes on a terminal: Chinese characters are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


class _Plain(Observer):
    """For pipes and logs: a line when something begins or ends, and now and then in between."""

    def __init__(self, out: IO[str], count: _Counted, heading: str) -> None:
        self._out, self._count = out, count
        self._said = time.monotonic()
        self._write(heading)

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._count.begin(case, ref, attempt)
        head = self._count.head()
        self._write(self._count.say(label("progress.attempt", head, attempt)) if attempt > 1 else head)

    def tick(self, attempt_dir: Path) -> None:
        if time.monotonic() - self._said >= PLAIN_SECONDS:
            self._write(self._count.line(attempt_dir))

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._count.finish(ref, ended)
        self._write(self._count.outcome(case, ref, ended))

    def waiting(self, ref: RoundRef, waits_for: Reason | None) -> None:
        self._count.wait(ref, waits_for)

    def note(self, note: Reason) -> None:
        self._write(self._count.say(note))

    def _write(self, text: str) -> None:
        self._said = time.monotonic()
        self._out.write(clean(text) + "\n")
        self._out.flush()


class _Live(Observer):
    """For terminals: finished rounds scroll by, the running one is a line that changes."""

    def __init__(self, out: IO[str], count: _Counted, heading: str) -> None:
        from rich.console import Console

        self._console = Console(file=out, highlight=False)
        self._count = count
        self._status: Any = self._console.status("")
        self._console.print(_plain(heading))
        self._status.start()

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._count.begin(case, ref, attempt)
        self._status.update(_plain(self._count.head()))

    def tick(self, attempt_dir: Path) -> None:
        # The spinner and a space stand before it.
        self._status.update(_plain(self._count.line(attempt_dir, self._console.width - 3)))

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._count.finish(ref, ended)
        self._console.print(_plain(self._count.outcome(case, ref, ended)))

    def waiting(self, ref: RoundRef, waits_for: Reason | None) -> None:
        self._count.wait(ref, waits_for)

    def note(self, note: Reason) -> None:
        self._console.print(_plain(self._count.say(note)))

    def close(self) -> None:
        self._status.stop()


def _plain(text: str) -> Any:
    """Text in which `[1/3]` is no markup, and nothing moves the cursor."""
    from rich.text import Text

    return Text(clean(text))
