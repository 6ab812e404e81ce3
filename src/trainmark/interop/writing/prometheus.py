"""`export prometheus`: a file for the text file collector of the node exporter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from trainmark.interop.protocol import WriteOnly
from trainmark.report.records import CaseReport, Report
from trainmark.score.records import Measurement
from trainmark.spec.case_id import CaseId
from trainmark.spec.states import JobState

Sample = tuple[str, dict[str, str], float]

_HELP = {
    "trainmark_case_succeeded": "1 when every round of the case succeeded, else 0.",
    "trainmark_case_rounds": "Rounds of the case that count.",
    "trainmark_case_flag": "Rounds with something wrong that does not take away the figure; what, its label says.",
    "trainmark_measurement": "A figure of the case, in the unit that its label names.",
    "trainmark_measurement_ci_low": "Lower end of its 95 % interval.",
    "trainmark_measurement_ci_high": "Upper end of its 95 % interval.",
    "trainmark_experiment": "A figure of an AutoML experiment, in the unit that its label names.",
    "trainmark_experiment_valid": "1 when the score counts under the rules of the experiment, else 0.",
}


class Prometheus(WriteOnly):
    summary = "metrics for Prometheus, as the node exporter's text file collector reads them"

    def render(self, reports: Sequence[Report]) -> bytes:
        samples = [sample for report in reports for case in report.cases for sample in _samples(report, case)]
        samples += [sample for report in reports for sample in _of_experiment(report)]
        lines = []
        for name, text in _HELP.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
            lines += [f"{name}{{{_labels(labels)}}} {value!r}" for found, labels, value in samples if found == name]
        return ("\n".join(lines) + "\n").encode()


def _samples(report: Report, case: CaseReport) -> Iterator[Sample]:
    found = CaseId.parse(case.case)
    labels = {
        "run": report.run,
        "case": case.case,
        "workload": found.workload,
        "framework": found.framework_text,
        "device": found.device,
        "nnodes": str(found.nnodes),
        "nproc": str(found.nproc),
    }
    yield "trainmark_case_succeeded", {**labels, "state": str(case.state)}, float(case.state is JobState.SUCCEEDED)
    yield "trainmark_case_rounds", labels, float(case.counted)
    for flag in case.flags:
        rounds = case.counted if flag.rounds is None else flag.rounds
        yield "trainmark_case_flag", {**labels, "flag": flag.reason.code, "severity": flag.severity}, float(rounds)
    for one in case.measurements.values():
        yield from _figure({**labels, "measurement": one.name, "unit": one.unit}, one)


def _of_experiment(report: Report) -> Iterator[Sample]:
    found = report.experiment
    if found is None:
        return
    labels = {"run": report.run, "experiment": found.name, "rules": found.rules}
    yield "trainmark_experiment_valid", labels, float(found.valid)
    for one in found.figures:
        if one.value is not None and math.isfinite(one.value):
            yield "trainmark_experiment", {**labels, "measurement": one.name, "unit": one.unit}, float(one.value)


def _figure(labels: dict[str, str], one: Measurement) -> Iterator[Sample]:
    """What is not known is left out, never 0."""
    for suffix, value in (("", one.value), ("_ci_low", one.ci_low), ("_ci_high", one.ci_high)):
        if value is not None and math.isfinite(value):
            yield f"trainmark_measurement{suffix}", labels, float(value)


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
