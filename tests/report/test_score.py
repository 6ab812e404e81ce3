"""The score against a reference: right for known truths, never better by what is missing, and honest about it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from trainmark.api_objects import Run
from trainmark.cli.main import main
from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.reasons import reason
from trainmark.report import build
from trainmark.report.make import references
from trainmark.report.make.references import Reference
from trainmark.report.make.score import Score, score
from trainmark.report.records import Report
from trainmark.report.show import show
from trainmark.score.records import Flag
from trainmark.score.stats.confidence import log_t
from trainmark.score.studies.aggregate import Speed, aggregate
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir
from trainmark.testing.synthetic import Shape, write_run

CASES = ("mnist:pytorch:cpu:1:1:3", "gpt2:pytorch:cpu:1:1:3", "resnet50:pytorch:cpu:1:1:3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDir]:
    """One run of each case as the reference, and one of each that is faster by 1.1, 2 and 0.8."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for case, factor in zip(CASES, (1.1, 2.0, 0.8), strict=True):
        made[f"old {case}"] = write_run(folder, case, [Shape(noise=0.02)] * 3)
        made[f"new {case}"] = write_run(folder, case, [Shape(noise=0.02, seconds=0.1 / factor)] * 3, seed=50)
    return made


def together(runs: dict[str, RunDir], which: str) -> tuple[Report, list]:
    """Three runs of one case each, as one report with the cases' plans."""
    found = [runs[f"{which} {case}"] for case in CASES]
    reports = [build.build(run) for run in found]
    cases = [case for report in reports for case in report.cases]
    return replace(reports[0], cases=cases), [case for run in found for case in run.manifest().plan.cases]


@pytest.fixture(scope="module")
def reference(runs: dict[str, RunDir]) -> Reference:
    made = [references.make(run, build.build(run), "lab") for run in (runs[f"old {case}"] for case in CASES)]
    return replace(made[0], cases=[case for one in made for case in one.cases])


def scored(runs: dict[str, RunDir], reference: Reference, **changes: object) -> Score:
    report, plans = together(runs, "new")
    plan = runs[f"new {CASES[0]}"].manifest().plan
    return score(replace(report, **changes), replace(plan, cases=plans), reference)


def test_the_geometric_mean_of_known_ratios_lies_in_the_interval(runs: dict[str, RunDir], reference: Reference) -> None:
    found = scored(runs, reference)
    truth = (1.1 * 2.0 * 0.8) ** (1 / 3)
    assert found.value == pytest.approx(truth, rel=0.02)
    assert found.ci_low is not None and found.ci_high is not None and found.ci_low < truth < found.ci_high
    assert (found.counted, found.of) == (3, 3)
    assert [case.ratio for case in found.cases] == pytest.approx([1.1, 2.0, 0.8], rel=0.03)
    itself = score(*_old(runs), reference)
    assert itself.value == pytest.approx(1.0, rel=1e-9)


def _old(runs: dict[str, RunDir]) -> tuple[Report, object]:
    report, plans = together(runs, "old")
    return report, replace(runs[f"old {CASES[0]}"].manifest().plan, cases=plans)


@pytest.mark.parametrize(
    ("rounds", "most"),
    [
        ((3, 3, 3, 3, 3), 0.99),
        ((3, 3, 1, 1, 1), 1.0),
        # Only one case tells how much rounds vary; with more rounds of it, that was 79 %.
        ((3, 1, 1, 1, 1), 1.0),
        ((10, 1, 1, 1, 1), 1.0),
    ],
)
def test_intervals_of_scores_cover_as_often_as_they_say(rounds: tuple[int, ...], most: float) -> None:
    dice = np.random.default_rng(7)
    hits, trials = 0, 600
    for _ in range(trials):
        pairs, truth = [], 0.0
        for n in rounds:
            spread = 0.01 * 10 ** dice.uniform(0, 1)
            sides = []
            for sign in (1, -1):
                mean = dice.uniform(0, 1)
                truth += sign * mean / 5
                speeds = np.exp(mean + spread * dice.normal(size=n)).tolist()
                sides.append(Speed(*(log_t(speeds) or (speeds[0], None, None)), n))
            pairs.append((sides[0], sides[1]))
        found = aggregate(pairs)
        hits += found.low <= math.exp(truth) <= found.high  # type: ignore[operator]
    assert 0.93 <= hits / trials <= most


def test_a_missing_case_flags_the_score_and_is_named(runs: dict[str, RunDir], reference: Reference) -> None:
    report, _ = together(runs, "new")
    # The slowest one is gone: the mean of the others is better, and says so.
    found = scored(runs, reference, cases=report.cases[:2])
    assert found.value is not None and (found.counted, found.of) == (2, 3)
    (flag,) = [flag for flag in found.flags if flag.severity == "severe"]
    assert flag.reason.code == "score-incomplete" and CASES[2] in say(flag.reason)
    said = show(found)
    assert "over 2 of 3 cases. Do not rely on it" in " ".join(said.split())


def test_why_cases_are_left_out_is_said_once(runs: dict[str, RunDir], reference: Reference) -> None:
    report, _ = together(runs, "new")
    said = " ".join(show(scored(runs, reference, cases=report.cases[:1])).split())
    assert said.count("the run has no such case") == 1
    assert f"{CASES[1]}, {CASES[2]}: the run has no such case" in said
    said = " ".join(show(scored(runs, replace(reference, cases=reference.cases[:1]))).split())
    assert said.count("not in the reference, so not in the score") == 1
    assert "the reference has no such case" not in said


def test_a_case_that_failed_is_missing_not_left_out_in_silence(runs: dict[str, RunDir], reference: Reference) -> None:
    report, _ = together(runs, "new")
    broken = replace(report.cases[2], state=JobState.INVALID, measurements={}, reason=reason("made-up"))
    found = scored(runs, reference, cases=[*report.cases[:2], broken])
    assert found.counted == 2 and found.flags[0].severity == "severe"
    assert found.cases[2].reason is not None and found.cases[2].reason.code == "no-speed-because"


@pytest.mark.parametrize(
    ("change", "said"),
    [({"preset": "full"}, "preset"), ({"model": {"layers": 12}}, "model"), ({"dtype": "bf16"}, "dtype")],
)
def test_other_work_is_not_compared(
    runs: dict[str, RunDir], reference: Reference, change: dict[str, object], said: str
) -> None:
    report, _ = together(runs, "new")
    trained = report.cases[0].trained
    assert trained is not None
    other = replace(report.cases[0], trained=replace(trained, **change))
    found = scored(runs, reference, cases=[other, *report.cases[1:]])
    assert found.counted == 2 and f"not the same work: {said} is" in say(found.cases[0].reason)


def test_flagged_cases_flag_the_score(runs: dict[str, RunDir], reference: Reference) -> None:
    report, _ = together(runs, "new")
    flagged = replace(report.cases[0], flags=[Flag("severe", reason("one-round"))])
    found = scored(runs, reference, cases=[flagged, *report.cases[1:]])
    assert found.counted == 3 and ("severe", "score-flagged-cases") in [
        (f.severity, f.reason.code) for f in found.flags
    ]


def test_one_round_takes_the_spread_of_others_and_says_so(runs: dict[str, RunDir], reference: Reference) -> None:
    report, _ = together(runs, "new")
    speed = report.cases[0].measurements["throughput"]
    single = replace(speed, n=1, ci_low=None, ci_high=None, inputs=speed.inputs[:1])
    case = replace(report.cases[0], measurements={"throughput": single})
    found, before = scored(runs, reference, cases=[case, *report.cases[1:]]), scored(runs, reference)
    assert found.ci_low is not None and before.ci_low is not None and found.ci_low < before.ci_low, "wider"
    assert CASES[0] in say(next(flag.reason for flag in found.flags if flag.reason.code == "score-assumed-spread"))
    alone = scored(runs, reference, cases=[case])
    assert alone.value is not None and alone.ci_low is None and "no interval" in say(alone.reason)


def test_from_the_command_line(runs: dict[str, RunDir], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, old = runs[f"new {CASES[1]}"], runs[f"old {CASES[1]}"]
    file = tmp_path / "lab.json"
    assert main(["score", "--make-reference", str(old.path), "-o", str(file), "--note", "made for a test"]) == 0
    assert main(["score", str(new.path), "--against", str(file)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.match(r"Score (2\.0|1\.9)", said) and "made for a test" in said
    assert main(["score", str(new.path), "--against", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(2.0, rel=0.02)
    page = tmp_path / "score.html"
    assert main(["score", str(new.path), "--against", str(file), "-o", str(page), "--lang", "zh"]) == 0
    assert "得分" in page.read_text() and "<svg" in page.read_text()
    frame = Run(new).score(str(file)).record
    assert frame.value == pytest.approx(2.0, rel=0.02)


def test_bad_references_are_refused(
    tmp_path: Path, runs: dict[str, RunDir], capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(runs[f"new {CASES[0]}"].path)
    (tmp_path / "broken.json").write_text("{}")
    for arguments, said in (
        (["--against", "nobody"], "no such file, and no reference of this name"),
        (["--against", str(tmp_path / "broken.json")], "is no reference"),
        (["--make-reference"], "name the file with -o FILE"),
    ):
        assert main(["score", run, *arguments]) == 2
        assert said in capsys.readouterr().err
    failed = write_run(tmp_path / "more", "mnist:pytorch:cpu:1:1:1", [None])
    with pytest.raises(UserError, match="a reference needs all cases"):
        Run(failed).reference("lab")


def test_the_shipped_references_can_be_read() -> None:
    for name in references.names():
        found = references.find(name, "quick")
        assert found.name == name and found.hardware and len({case.case for case in found.cases}) == len(found.cases)
        assert all(case.speed.n >= 1 for case in found.cases)
    assert references.names(), "one comes with trainmark"
