"""The figures of a case that every kind of report shows, picked out of its records."""

from __future__ import annotations

from collections.abc import Sequence

from trainmark.i18n.catalogues import LABELS
from trainmark.i18n.texts import Joined, Text, label, named
from trainmark.reasons import as_reason
from trainmark.report import numbers
from trainmark.report.charts.records import Row
from trainmark.report.document import Badge, Inline, Tone
from trainmark.report.records import CaseReport, Report, RunReport
from trainmark.score.figures.definitions import EVALUATION
from trainmark.score.records import Flag, Measurement
from trainmark.spec.case_id import CaseId
from trainmark.spec.states import JobState

_STATES: dict[JobState, Tone] = {
    JobState.SUCCEEDED: "good",
    JobState.FAILED: "bad",
    JobState.INVALID: "bad",
    JobState.TIMEOUT: "bad",
    JobState.LOST: "bad",
}
_OUTCOMES: dict[str, Tone] = {
    "steady": "good",
    "drifting": "warn",
    "two-level": "warn",
    "unsteady": "warn",
    "too short": "warn",
}
_BANDS: dict[str, Tone] = {"band-inside": "good", "band-outside": "bad"}
# Against a vendor's peak where one is known, else against a measured multiplication.
_FRACTIONS = ("mfu", "matmul_fraction")
_MLPERF = "mlperf"
_MOST_HOSTS = 6
_MEMORY = ("peak_memory", "memory_used")


def short(case: str) -> str:
    """The name of a case for a chart: what it trains, and on how many ranks."""
    found = CaseId.parse(case)
    return f"{found.workload} {found.nnodes}×{found.nproc}"


def throughput(case: CaseReport) -> Measurement | None:
    return case.measurements.get("throughput")


def first(case: CaseReport, names: tuple[str, ...]) -> Measurement | None:
    """The first of these that has a value."""
    found = (case.measurements.get(name) for name in names)
    return next((one for one in found if one is not None and one.value is not None), None)


def speed_row(case: CaseReport, name: str, place: str) -> Row:
    """The speeds of a case's runs, with their mean and its interval."""
    found = throughput(case)
    if found is None:
        return Row(name)
    return Row(
        name=name,
        points=found.inputs,
        mean=found.value,
        low=found.ci_low,
        high=found.ci_high,
        link=place,
        note=numbers.value(found),
        result=found.value is not None,
    )


def fraction(case: CaseReport) -> Measurement | None:
    return first(case, _FRACTIONS)


def memory(case: CaseReport) -> Measurement | None:
    return first(case, _MEMORY)


def time_to_train(case: CaseReport, report: Report) -> Measurement | None:
    """From the start of training to its target, where there is one and it was reached. MLPerf's logs are of trainings
    to their target: of one that succeeded it is from `run_start` to `run_stop`."""
    names: tuple[str, ...] = ("time_to_target",)
    if report.imported is not None and report.imported.format == _MLPERF:
        names += ("train_time",)
    return first(case, names) if case.state is JobState.SUCCEEDED else None


def state_badge(state: JobState) -> Badge:
    return Badge(named("state", str(state)), _STATES.get(state, "calm"))


def outcome_badge(outcome: str | None) -> Inline:
    """A word without a colour, and a dash, are no badges."""
    if not outcome:
        return numbers.NONE
    tone = _OUTCOMES.get(outcome)
    return Badge(named("outcome", outcome), tone) if tone else named("outcome", outcome)


def band_badge(case: CaseReport) -> Inline:
    if case.band is None:
        return numbers.NONE
    tone = _BANDS.get(case.band.code)
    return Badge(label(case.band.code), tone) if tone else label(case.band.code)


def band_reason(case: CaseReport) -> Text:
    """Why the reference band does not apply."""
    return as_reason(case.band.arguments.get("why")) if case.band is not None else None


def disturbed(case: CaseReport) -> list[RunReport]:
    return [run for run in case.runs if run.disturbed]


def remarks(case: CaseReport) -> list[Text]:
    """Everything a reader needs beyond the row; nothing for a case without remarks."""
    found: list[Text] = [case.reason] if case.state is not JobState.SUCCEEDED and case.reason else []
    found += [flag_text(flag) for flag in case.flags]
    found += case.notes
    speed = throughput(case)
    return [*found, speed.reason] if speed is not None and speed.value is None else found


def flag_text(flag: Flag) -> Text:
    """`warning: … (in 9 of 10 rounds)`"""
    said = Joined((named("severity", flag.severity), flag.reason), ": ")
    if flag.rounds is None or flag.of == 1:
        return said
    return Joined((said, label("flag_rounds", str(flag.rounds), str(flag.of))), " ")


def flag_codes(flags: Sequence[Flag]) -> str:
    """For programs: `severe two-level-slower 2/5; note data-synthetic`."""
    return "; ".join(
        f"{flag.severity} {flag.reason.code}" + ("" if flag.rounds is None else f" {flag.rounds}/{flag.of}")
        for flag in flags
    )


def formula(found: Measurement) -> Text:
    """In any language for figures of today's definitions; a record of an older version may have another formula."""
    if found.target is not None and found.name in ("time_to_target", "samples_to_target"):
        sign = "≥" if found.target.direction == "up" else "≤"
        return label(f"formula.{found.name}", f"{found.target.metric} {sign} {found.target.value:g}")
    if found.name.startswith(EVALUATION):
        return label("formula.evaluation", found.name.removeprefix(EVALUATION))
    named_so = found.name.replace("_to_target", "_to_no_target")
    known = LABELS.get(f"formula.{named_so}", ("",))[0] == found.formula
    return label(f"formula.{named_so}") if known else found.formula


def last_lines(case: CaseReport) -> list[str]:
    lines = (case.failure or {}).get("last_lines")
    return [str(line) for line in lines] if isinstance(lines, list) else []


def hosts(report: Report) -> list[str]:
    return sorted({host for case in report.cases for run in case.runs for host in run.hosts})


def machine(report: Report) -> Text:
    """The hosts that trained. The processor is the controller's, so it is told only where the controller trained."""
    names = hosts(report)
    about = report.environment.get("host", {})
    here = about.get("host")
    if here is not None and names in ([], [here]) and "cpu.model" in about:
        memory = about.get("memory_bytes", "")
        room = numbers.quantity(float(memory), "bytes") if memory.isdecimal() else numbers.NONE
        return label("machine_is", here, about["cpu.model"], about.get("cpu.threads", numbers.NONE), room)
    shown = ", ".join(names[:_MOST_HOSTS])
    more = f" … ({len(names)})" if len(names) > _MOST_HOSTS else ""
    return shown + more or numbers.NONE
