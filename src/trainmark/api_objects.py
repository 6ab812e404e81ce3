"""What the library's functions return: runs, handles of runs in the background, results; and them as data frames."""

from __future__ import annotations

import contextlib
import html
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import msgspec

from trainmark.errors import UserError
from trainmark.extras import load
from trainmark.i18n.speaker import say
from trainmark.launch.protocol import Ended
from trainmark.plan.records import CasePlan, Plan, RoundRef
from trainmark.reasons import Reason
from trainmark.report.run_log import logged
from trainmark.run import background, campaign, control, progress, session, stop
from trainmark.run.campaign import Driver, Step
from trainmark.run.control import RunStatus
from trainmark.run.lease import LostLease
from trainmark.run.observers import Observer
from trainmark.run.stop import StopSwitch, Switch
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from trainmark.report.make.references import Reference
    from trainmark.report.make.score import Score, ScoredCase
    from trainmark.report.records import CaseReport, Report

T = TypeVar("T")
Library = Literal["pandas", "polars"]
Row = dict[str, Any]


class ProgressUpdate(msgspec.Struct, frozen=True):
    """What `on_progress` is called with. `event`: an attempt `started` or `ended`, a look at the one that is
    `running`, or a `note`. `done` of `rounds` have ended."""

    event: Literal["started", "waiting", "running", "ended", "note"]
    run: str
    done: int
    rounds: int
    case: str = ""
    round: int = 0
    attempt: int = 0
    state: JobState | None = None
    text: str = ""
    progress: progress.Progress | None = None


OnProgress = Callable[[ProgressUpdate], object]


class _Callback(Observer):
    """Calls `on_progress`. An error that it raises ends the run."""

    def __init__(self, run: RunDir, plan: Plan, call: OnProgress) -> None:
        self._run, self._plan, self._call = run, plan, call
        self._ended: set[RoundRef] = set()
        self._now: dict[str, Any] = {}

    def _update(self, event: Literal["started", "waiting", "running", "ended", "note"], **more: Any) -> None:
        self._call(ProgressUpdate(event, self._run.id, len(self._ended), len(self._plan.order), **more))

    def started(self, case: CasePlan, ref: RoundRef, attempt: int) -> None:
        self._now = {"case": case.case, "round": ref.round, "attempt": attempt}
        self._update("started", state=JobState.PENDING, **self._now)

    def tick(self, attempt_dir: Path) -> None:
        named = self._now.get("case")
        case = next((case for case in self._plan.cases if case.case == named), None)
        seen = None if case is None else progress.look(attempt_dir, case)
        if seen is not None:
            self._update("running", state=JobState.RUNNING, progress=seen, text=seen.text(case.unit), **self._now)  # type: ignore[union-attr]

    def ended(self, case: CasePlan, ref: RoundRef, ended: Ended) -> None:
        self._ended.add(ref)
        self._update("ended", case=case.case, round=ref.round, state=ended.state, text=say(ended.reason))

    def waiting(self, _ref: RoundRef, waits_for: Reason | None) -> None:
        if waits_for is not None:
            self._update("waiting", **self._now, state=JobState.PENDING, text=say(waits_for))

    def note(self, note: Reason) -> None:
        self._update("note", text=say(note))


class EventSwitch(StopSwitch):
    """The caller's event as a request to stop."""

    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self._event = event

    def level(self) -> int:
        if self._event.is_set() and not super().level():
            self.request()
        return super().level()


def show(record: Any, format: str, language: str | None = None) -> str:
    from trainmark.report.show import show

    return show(record, format, language)


class Run:
    """A run: what became of it so far, its figures and its logs. Always read from its folder, which is the truth."""

    def __init__(self, folder: RunDir) -> None:
        self.folder = folder

    @property
    def id(self) -> str:
        return self.folder.id

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def plan(self) -> Plan:
        return self.folder.manifest().plan

    @property
    def state(self) -> JobState:
        """RUNNING while somebody works on it; LOST when its controller is gone before its end."""
        return control.state_of(self.folder, session.state_of(self.folder, self.plan))

    def status(self) -> RunStatus:
        """Its state, its owner, and each of its rounds."""
        return control.status(self.folder)

    @overload
    def report(self, format: None = None, language: str | None = None) -> Report: ...
    @overload
    def report(self, format: str, language: str | None = None) -> str: ...
    def report(self, format: str | None = None, language: str | None = None) -> Report | str:
        """The figures as a record, or as `text`, `html`, `md`, `json` or `csv` in a language (`en`, `zh`)."""
        from trainmark.report.make.whole import whole

        made = whole(self.folder, series=format == "html")
        return made if format is None else show(made, format, language)

    def to_frame(self, what: Literal["measurements", "rounds"] = "measurements", library: Library = "pandas") -> Any:
        """A data frame with a row for each case and measurement, or for each round that counts."""
        report = self.report()
        rows = [row for case in report.cases for row in _FRAMES[what](self.id, case)]
        return to_frame(rows, library)

    def score(self, against: str | None = None) -> Result[Score]:
        """Its speeds in one figure: their geometric mean against a reference machine, with its interval. `against`: a
        reference's name or file; None is the one that comes with trainmark."""
        from trainmark.report import build
        from trainmark.report.make import references
        from trainmark.report.make.score import score

        report = build.build(self.folder)
        found = score(report, self.plan, references.find(against, report.suite))
        return Result(found, [_scored(one) for one in found.cases])

    def reference(self, name: str, note: str = "") -> Reference:
        """Its speeds as a reference for `score`; all of its cases must have one. `show(…, "json")` makes its file."""
        from trainmark.report import build
        from trainmark.report.make import references

        return references.make(self.folder, build.build(self.folder), name, note)

    def logs(self, rank: int | None = 0, *, what: str = "ranks", case: str | None = None) -> str:
        """The output of a rank (None: of all) in the newest attempt, or the log of the `agent` or of the `run`."""
        files = control.log_files(self.folder, what, rank, case)
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())

    def resume(self, *, on_progress: OnProgress | None = None, stop: threading.Event | None = None) -> Run:
        """Works on it until it ends: a new run, or one that was stopped or lost. Rounds that ended stay as they are."""
        return self._drive(on_progress, None if stop is None else EventSwitch(stop))

    def _drive(self, on_progress: OnProgress | None, switch: Switch | None, blocks: int | None = None) -> Run:
        plan = self.plan
        observer = _Callback(self.folder, plan, on_progress) if on_progress is not None else Observer()
        try:
            logged(self.folder, observer, lambda observer: campaign.drive(self.folder, plan, observer, switch, blocks))
        except (UserError, LostLease):
            raise
        except BaseException:
            # Ctrl-C in a notebook, or an error of the callback: nothing goes on behind the caller's back.
            with contextlib.suppress(Exception):
                session.end(self.folder, plan)
            raise
        return self

    def stop(self, *, now: bool = False, timeout: float = 120.0) -> bool:
        """Stops it, whoever drives it; returns when nothing of it is left. False: it was not running."""
        return control.stop_run(self.folder, now=now, timeout=timeout)

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.state}>"

    def _repr_html_(self) -> str:
        rows = [_brief(case) for case in self.report().cases]
        return f"<p>run <b>{html.escape(self.id)}</b> {self.state}</p>" + html_table(rows)


def campaign_driver(on_progress: OnProgress | None) -> Driver:
    """Drives the runs of a campaign, with the same callback for all of them."""

    def drives(step: Step, run: RunDir, _plan: Plan, switch: Switch) -> JobState:
        return Run(run)._drive(on_progress, switch, step.arguments.get("block")).state

    return drives


class Handle:
    """A run in the background."""

    def __init__(self, run: Run, on_progress: OnProgress | None = None, *, process: bool = False) -> None:
        self.run = run
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if process:
            background.start(run.folder, ["resume", "--log-level", "warning", str(run.path)])
        else:
            self._thread = threading.Thread(target=self._work, args=(on_progress,), name=f"trainmark {run.id}")
            self._thread.start()

    def _work(self, on_progress: OnProgress | None) -> None:
        try:
            self.run.resume(on_progress=on_progress, stop=self._stop)
        except BaseException as error:
            self._error = error

    def status(self) -> RunStatus:
        return self.run.status()

    def logs(self, rank: int | None = 0, *, what: str = "ranks", case: str | None = None) -> str:
        return self.run.logs(rank, what=what, case=case)

    def wait(self, timeout: float | None = None) -> Run:
        """Until it has ended; raises what ended it if that was an error, and TimeoutError if it takes too long."""
        if self._thread is not None:
            self._thread.join(timeout)
            ended = not self._thread.is_alive()
        else:
            ended = control.wait(self.run.folder, timeout)
        if not ended:
            raise TimeoutError(f"run {self.run.id} has not ended within {timeout:g} s")
        if self._error is not None:
            raise self._error
        return self.run

    def stop(self, *, now: bool = False, timeout: float = 120.0) -> Run:
        """Stops it, and returns when nothing of it is left."""
        if self._thread is None:
            self.run.stop(now=now, timeout=timeout)
            return self.run
        self._stop.set()
        if now:
            stop.request(self.run.path, now=True)
        return self.wait(timeout)

    def __repr__(self) -> str:
        return f"<Handle {self.run!r}>"


class Result(Generic[T]):
    """What a comparison, a history, a prediction or a diagnosis gives. `record` is the whole of it; it prints as the
    command line does, and shows itself in a notebook."""

    def __init__(self, record: T, rows: list[Row], document: Any = None) -> None:
        """`document`: how it reads, for a record that `report` has no kind for."""
        self.record = record
        self._rows, self._document = rows, document

    def report(self, format: str = "text", language: str | None = None) -> str:
        """As `text`, `html`, `md` or `json`."""
        readable = format in ("text", "html", "md") and self._document is not None
        return show(self._document if readable else self.record, format, language)

    def to_frame(self, library: Library = "pandas") -> Any:
        """A data frame with a row for each thing that was compared, measured or predicted."""
        return to_frame(self._rows, library)

    def __str__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        return html_table(self._rows)


# Data frames and small tables.


def to_frame(rows: Sequence[Row], library: Library) -> Any:
    """Rows as a data frame of a library that is imported only now: it is not among trainmark's own dependencies."""
    if library not in ("pandas", "polars"):
        raise UserError(f"library: found {library!r}, allowed is `pandas` or `polars`")
    frames = load(library, f"a data frame of {library}")
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    # polars looks at the first hundred rows only, where a column may be all unknown.
    return frames.DataFrame(plain, **({"infer_schema_length": None} if library == "polars" else {}))


def html_table(rows: Sequence[Row]) -> str:
    """A plain table for a notebook, with nothing loaded from elsewhere."""
    if not rows:
        return "<p>no rows</p>"
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row.values()) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(_plain(value))


def _plain(value: Any) -> Any:
    """A number, or text: reasons are put into words."""
    return value if value is None or isinstance(value, (int, float, str)) else say(value)


def _measurements(run: str, case: CaseReport) -> list[Row]:
    """A case without measurements has a row, too: that it has none is a result."""
    from trainmark.report.figures import flag_codes

    head = {"run": run, "case": case.case, "state": str(case.state)}
    names = ("name", "value", "unit", "n", "ci_low", "ci_high", "method")
    found = [
        {**head, **{name: getattr(one, name) for name in names}, "flags": flag_codes(one.flags)}
        for one in case.measurements.values()
    ]
    return found or [{**head, **dict.fromkeys(names), "flags": ""}]


def _rounds(run: str, case: CaseReport) -> list[Row]:
    from trainmark.report.figures import flag_codes

    return [
        {
            "run": run,
            "case": case.case,
            "round": one.round,
            "attempt": one.attempt,
            "hosts": ", ".join(one.hosts),
            "throughput": one.throughput,
            "sustained_throughput": one.sustained,
            "seconds": one.end_to_end,
            "disturbed": bool(one.disturbed),
            "outlier": one.outlier,
            "flags": flag_codes(one.flags),
        }
        for one in case.runs
    ]


def _brief(case: CaseReport) -> Row:
    from trainmark.report.figures import flag_codes

    found = case.measurements.get("throughput")
    return {
        "case": case.case,
        "state": str(case.state),
        "rounds": f"{case.counted}/{case.rounds}",
        "throughput": found.value if found else None,
        "low": found.ci_low if found else None,
        "high": found.ci_high if found else None,
        "unit": found.unit if found else "",
        "flags": flag_codes(case.flags),
    }


def _scored(one: ScoredCase) -> Row:
    return {
        "case": one.case,
        "value": None if one.speed is None else one.speed.value,
        "reference": None if one.reference is None else one.reference.value,
        "unit": one.unit,
        "ratio": one.ratio,
        "low": one.ci_low,
        "high": one.ci_high,
        "why_not": one.reason,
    }


_FRAMES: dict[str, Callable[[str, CaseReport], list[Row]]] = {"measurements": _measurements, "rounds": _rounds}
