"""The library's results: compared, over time, predicted, in and out of other tools' formats."""

from __future__ import annotations

from pathlib import Path

import pytest

import trainmark as tm
from tests.interop import flagperf_logs as logs
from tests.runs import finished_run
from trainmark import api
from trainmark.errors import UserError

CASE = "one:none:cpu:1:1:5"
SPEEDS = [100.0, 100.4, 99.7, 100.2, 99.9]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    finished_run(tmp_path / "runs", "20260101-a", {CASE: SPEEDS})
    finished_run(tmp_path / "runs", "20260102-b", {CASE: [0.8 * speed for speed in SPEEDS]})
    return tmp_path / "runs"


def test_two_runs_are_compared(runs: Path) -> None:
    found = tm.compare("20260101-a", "20260102-b", runs=runs)
    (row,) = found.to_frame().to_dict("records")
    assert row["verdict"] == "slower" and row["ratio"] == pytest.approx(0.8, rel=0.01)
    assert "slower by 20 %" in str(found) and "<td>slower</td>" in found._repr_html_()
    assert found.record[0].past_threshold
    same = tm.compare(tm.open("20260101-a", runs), runs / "20260102-b")
    assert same.record == found.record
    with pytest.raises(UserError, match="one run only"):
        tm.compare("last", runs=runs)
    with pytest.raises(UserError, match="allowed is `throughput`"):
        tm.compare("20260101-a", "20260102-b", runs=runs, metric="speed")


def test_a_case_over_time(runs: Path) -> None:
    found = tm.history("one:none:cpu:1:1", runs=runs)
    assert list(found.to_frame()["run"]) == ["20260101-a", "20260102-b"] and CASE.rpartition(":")[0] in str(found)


def test_a_size_that_cannot_be_predicted_says_why(runs: Path) -> None:
    with pytest.raises(UserError, match="20260101-a: "):
        tm.predict("20260101-a", 4, runs=runs)


def test_in_and_out_of_other_formats(tmp_path: Path) -> None:
    logs.put(tmp_path / "logs", "resnet50:pytorch_1.8:A100:1:8:1", logs.log())
    run = tm.import_run("flagperf", tmp_path / "logs", runs=tmp_path / "runs")
    assert tm.import_run("flagperf", tmp_path / "logs", runs=tmp_path / "runs").id == run.id
    assert run.report().cases[0].case.startswith("resnet50:pytorch")
    (file,) = tm.export(run, "csv", tmp_path / "out.csv")
    assert "resnet50" in Path(file).read_text()
    with pytest.raises(UserError, match="no option `nonsense`"):
        tm.import_run("flagperf", tmp_path / "logs", runs=tmp_path / "runs", nonsense=1)


def test_the_default_folder_for_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMARK_RUNS", str(tmp_path))
    assert api.runs_folder(None) == tmp_path and tm.runs() == []
