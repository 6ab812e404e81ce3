"""Which framework is faster: one command, verdicts included."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.i18n.speaker import say
from trainmark.plan.records import CasePlan, bare
from trainmark.report.kinds.contest import answer
from trainmark.report.make.contest import contests
from trainmark.report.records import CaseReport, Contest, Report, RunReport
from trainmark.report.show import show
from trainmark.score.records import Measurement
from trainmark.score.stats.verdict import geometric_mean
from trainmark.spec.case_id import CaseId
from trainmark.spec.states import JobState
from trainmark.spec.workload import Deadlines

SUITE = """\
schema: 1
name: race
preset: smoke
window: {{skip: 2, steps: 40}}
cases:
  - mnist:pytorch:cpu:1:1:3@batch=8,data={data},steps=50
  - mnist:jax:cpu:1:1:3@batch=8,data={data},steps=50
"""


@pytest.mark.frameworks
def test_a_suite_of_two_frameworks_ends_with_a_verdict(cli, whole_cache, digits):
    (cli.folder / "race.yaml").write_text(SUITE.format(data=digits))
    report = json.loads(cli("run", "race.yaml", "--json").stdout)
    (contest,) = report["contests"]
    first, second = contest["rivals"]
    assert {first["framework"], second["framework"]} == {"pytorch", "jax"}
    assert first["word"] == "fastest" and first["share"] == 1.0
    assert second["word"] in ("slower", "equivalent", "inconclusive") and 0 < second["share"] <= 1
    assert "paired" in say(second["verdict"]["method"]), "rounds of one block belong together"
    said = " ".join(cli("report").stdout.split())  # a terminal breaks long lines
    assert "Which framework is faster: mnist:*:cpu:1:1" in said and "fastest" in said
    cli("report", "--format", "html", "-o", "report.html")
    assert 'id="contests"' in (cli.folder / "report.html").read_text()


def entry(framework: str, speeds: list[float], reason: str = "") -> tuple[CasePlan, CaseReport]:
    case = f"mnist:{framework}:cpu:1:1:{len(speeds) or 1}"
    mean = geometric_mean(speeds) if speeds else None
    found = Measurement("throughput", mean, "images/s", n=len(speeds), inputs=speeds)
    runs = [RunReport(number, 1, ["here"], "steady", 1, 9, speed, speed) for number, speed in enumerate(speeds, 1)]
    state = JobState.SUCCEEDED if speeds else JobState.FAILED
    report = CaseReport(
        case, state, reason, "0", "closed", "quick", len(speeds) or 1, len(speeds), {"throughput": found}, runs=runs
    )
    return bare(CaseId.parse(case), (), Deadlines()), report


def test_the_fastest_is_named_and_the_others_are_judged_against_it():
    entries = [
        entry("pytorch", [100.0, 101.0, 99.5, 100.5, 100.2]),
        entry("jax", [150.0, 151.0, 149.0, 150.5, 149.8]),
        entry("tensorflow", [149.6, 150.7, 148.8, 150.1, 149.4]),
        entry("mindspore", [], "the scheduler ended with exit code 1"),
    ]
    plan: Any = SimpleNamespace(cases=[planned for planned, _ in entries])
    (contest,) = contests(plan, [report for _, report in entries])
    words = {rival.framework: rival.word for rival in contest.rivals}
    assert words == {"jax": "fastest", "tensorflow": "equivalent", "pytorch": "slower", "mindspore": "none"}
    assert say(answer(contest)) == "jax and tensorflow are equally fast: they differ by less than 3 %."
    told = shown(entries, contest)
    # A row that is too long for a terminal has its first cell on a line of its own.
    rows = {line: after.split() for line, after in itertools.pairwise(told) if after.startswith("    ")}
    assert rows["jax"][-1] == "fastest"
    assert rows["pytorch"][0] == "5/5" and rows["pytorch"][-1] == "slower" and "66.8" in rows["pytorch"]
    assert "  mindspore: no result: the scheduler ended with exit code 1" in told


def shown(entries: list[tuple[CasePlan, CaseReport]], contest: Contest) -> list[str]:
    report = Report("a", JobState.SUCCEEDED, "race", [case for _, case in entries], contests=[contest])
    return show(report).partition("Which framework is faster")[2].splitlines()


def test_nobody_is_called_the_fastest_while_that_is_open():
    entries = [entry("pytorch", [100.0, 150.0]), entry("jax", [140.0, 120.0])]
    plan: Any = SimpleNamespace(cases=[planned for planned, _ in entries])
    (contest,) = contests(plan, [report for _, report in entries])
    told = shown(entries, contest)
    assert any("may be as fast or faster: pytorch" in line for line in told)
    assert not any(line.endswith("fastest") for line in told)


def test_a_run_of_one_framework_has_no_contest():
    entries = [entry("jax", [1.0, 1.1])]
    plan: Any = SimpleNamespace(cases=[planned for planned, _ in entries])
    assert contests(plan, [report for _, report in entries]) == []
