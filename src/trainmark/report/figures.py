"""The figures of a case that every kind of report shows, picked out of its records."""

from __future__ import annotations

from collections import Counter

from trainmark.reasons import Reason
from trainmark.report import numbers
from trainmark.report.i18n.speaker import Label, Speaker
from trainmark.report.records import CaseReport, Report, RunReport
from trainmark.score.figures.measurement import Measurement
from trainmark.spec.states import JobState

# Against a vendor's peak where one is known, else against a measured multiplication.
_FRACTIONS = ("mfu", "matmul_fraction")
_MOST_HOSTS = 6
_MEMORY = ("peak_memory", "memory_used")


def throughput(case: CaseReport) -> Measurement | None:
    return case.measurements.get("throughput")


def first(case: CaseReport, names: tuple[str, ...]) -> Measurement | None:
    """The first of these that has a value."""
    found = (case.measurements.get(name) for name in names)
    return next((one for one in found if one is not None and one.value is not None), None)


def fraction(case: CaseReport) -> Measurement | None:
    return first(case, _FRACTIONS)


def fraction_text(case: CaseReport, speak: Speaker) -> str:
    """Never without its name: the two have different denominators."""
    found = fraction(case)
    return numbers.NONE if found is None else f"{numbers.value(found)} {speak.text(f'short.{found.name}')}"


def memory(case: CaseReport) -> Measurement | None:
    return first(case, _MEMORY)


def outcomes(case: CaseReport, speak: Speaker) -> list[tuple[str, Label]]:
    """How the windows of the rounds came out: one word when all are alike, else each with its count before it."""
    counts = Counter(run.outcome for run in case.runs if run.outcome)
    return [
        (f"{count} × " if len(counts) > 1 else "", speak.named("outcome", name)) for name, count in counts.most_common()
    ]


def band(case: CaseReport, speak: Speaker) -> tuple[Label, Label]:
    """The word, and why where it does not apply."""
    if case.band is None:
        return Label(numbers.NONE), Label("")
    return speak(f"band.{case.band.code}"), speak.reason(case.band.arguments.get("why"))


def disturbed(case: CaseReport) -> list[RunReport]:
    return [run for run in case.runs if run.disturbed]


def disturbed_text(case: CaseReport) -> str:
    found = disturbed(case)
    return f"{len(found)}/{len(case.runs)}" if found else numbers.NONE


def remarks(case: CaseReport) -> list[Reason | list[Reason]]:
    """Everything a reader needs beyond the row; nothing for a case without remarks."""
    found: list[Reason | list[Reason]] = []
    if case.state is not JobState.SUCCEEDED and case.reason:
        found.append(case.reason)
    found += case.notes
    speed = throughput(case)
    return [*found, speed.reason] if speed is not None and speed.reason else found


def is_disturbance(remark: Reason | list[Reason]) -> bool:
    """Whether it says that a round was disturbed."""
    return isinstance(remark, Reason) and remark.code == "round-disturbed"


def last_lines(case: CaseReport) -> list[str]:
    lines = (case.failure or {}).get("last_lines")
    return [str(line) for line in lines] if isinstance(lines, list) else []


def hosts(report: Report) -> list[str]:
    return sorted({host for case in report.cases for run in case.runs for host in run.hosts})


def machine(report: Report, speak: Speaker) -> Label:
    """The hosts that trained. The processor is the controller's, so it is told only where the controller trained."""
    names = hosts(report)
    about = report.environment.get("host", {})
    here = about.get("host")
    if here is not None and names in ([], [here]) and "cpu.model" in about:
        memory = about.get("memory_bytes", "")
        room = numbers.quantity(float(memory), "bytes") if memory.isdecimal() else numbers.NONE
        return speak("machine_is", here, about["cpu.model"], about.get("cpu.threads", numbers.NONE), room)
    shown = ", ".join(names[:_MOST_HOSTS])
    more = f" … ({len(names)})" if len(names) > _MOST_HOSTS else ""
    return Label(shown + more or numbers.NONE)
