"""A study as it is reported: the golden figures of a published table, and cells without a speed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Cli
from tests.runs import finished_run
from trainmark.i18n.speaker import say
from trainmark.report.build import build
from trainmark.report.make import dlperf
from trainmark.report.make.study import studies
from trainmark.report.show import show
from trainmark.spec.peaks import Message, Peaks
from trainmark.spec.rules import FixedWindow
from trainmark.spec.scaling import Series
from trainmark.spec.states import JobState
from trainmark.store.rundir import EVENTS, RunDir
from trainmark.testing.synthetic import Shape, write_run

# MindSpore, ResNet50 v1.5, fp32, 128 images per device: the runs of the published table, and the table itself.
RUNS = {
    "1:1": [369.81, 371.31, 369.02, 371.01, 369.0],
    "1:2": [710.96, 710.68, 709.28, 710.7, 709.78],
    "1:4": [1418.66, 1419.13, 1419.97, 1418.08, 1417.93],
    "1:8": [2788.99, 2762.27, 2778.1, 2768.28, 2773.82],
    "2:8": [5483.22, 5480.69, 5484.01, 5499.46, 5474.62],
    "4:8": [10724.0, 10716.94, 10731.78, 10758.88, 10757.37],
}
TABLE = """\
| node_num | gpu_num | samples/s | speedup |
| -------- | ------- | --------- | ------- |
| 1        | 1       | 369.81    | 1       |
| 1        | 2       | 710.68    | 1.92    |
| 1        | 4       | 1418.66   | 3.84    |
| 1        | 8       | 2773.82   | 7.50    |
| 2        | 16      | 5483.22   | 14.83   |
| 4        | 32      | 10731.78  | 29.02   |
"""
AVERAGES = [370.03, 710.28, 1418.75, 2774.29, 5484.4, 10737.79]


def study(runs: Path, speeds: dict[str, list[float | JobState]], name: str = "a") -> RunDir:
    changes = {
        "studies": (Series("resnet50 none cpu batch 128", "weak", "1x1", 128),),
        "window": FixedWindow(10, 100),
        "params": {"batch": 128},
    }
    cases = {f"resnet50:none:cpu:{size}:{len(found)}": found for size, found in speeds.items()}
    return RunDir(finished_run(runs, name, cases, changes))


def test_dlperfs_own_table_and_json(tmp_path: Path, cli: Cli) -> None:
    run = study(cli.runs, RUNS)
    report = build(run)
    (found,) = report.studies
    cells = dlperf.cells_of(found)
    assert dlperf.table(cells) == TABLE
    assert [cell["average_speed"] for cell in cells.values()] == AVERAGES
    assert cells["1n8g"] == {
        "average_speed": 2774.29, "batch_size_per_device": 128, "median_speed": 2773.82, "speedup": 7.5
    }  # fmt: skip
    assert TABLE in show(report, "md")
    text = show(report, "text")
    assert "1x1: 369.81, 371.31, 369.02, 371.01, 369.00" in text
    assert "29.02" in text and "90.7 %" in text and "█" in text
    page = show(report, "html")
    assert 'id="scaling"' in page and "<svg" in page.split('id="scaling"')[1]
    cli("export", "dlperf", run.id, "-o", "out")
    written = json.loads((cli.folder / "out" / "bz128_result.json").read_text())["rn50"]
    # What the report marks is marked there, too, under a key of its own.
    assert written["2n8g"].pop("flags") == "note round-apart 1/5"
    assert written == cells
    assert TABLE in (cli.folder / "out" / "bz128_result.md").read_text()


def test_without_a_baseline_there_is_no_speedup(tmp_path: Path) -> None:
    (found,) = build(study(tmp_path, {"1:1": [JobState.FAILED, JobState.FAILED], "1:2": [50.0, 51.0]})).studies
    assert "the baseline 1x1 has no speed" in say(found.reason) and "made so by a test" in say(found.reason)
    assert [cell.speedup for cell in found.cells] == [None, None] and found.cells[1].median == pytest.approx(50.5)
    assert "1" not in dlperf.table(dlperf.cells_of(found)).splitlines()[-1].split("|")[4]


def test_a_cell_that_went_well_says_why_it_has_no_speed(tmp_path: Path) -> None:
    run = write_run(tmp_path, "noop:none:cpu:1:1:2", [Shape(steps=1)] * 2)
    plan = run.manifest().plan
    series = Series("noop", "weak", "1x1")
    (found,) = studies((msgspec.structs.replace(plan.cases[0], studies=(series,)),), build(run).cases)
    assert "make no window" in say(found.reason) and "make no window" in say(found.cells[0].note)


def test_one_run_has_no_interval(tmp_path: Path) -> None:
    (found,) = build(study(tmp_path, {"1:1": [50.0], "1:2": [90.0]})).studies
    assert found.cells[1].speedup == pytest.approx(1.8) and found.cells[1].speedup_low is None
    assert found.cells[1].ci_low is None


def test_predict_from_a_run(cli: Cli) -> None:
    study(cli.runs, {size: list(found) for size, found in RUNS.items() if size != "4:8"})
    (series,) = cli.json("predict", "a", "--nodes", "4", "--nodes", "128")["series"]
    near, far = series["predictions"]
    assert near["low"] < 10731.78 < near["high"] and (near["nodes"], near["procs"]) == (4, 8)
    assert "2x8" in say(near["method"]) and far["nodes"] == 128
    cli("predict", "a", "--nodes", "4", "-o", "ahead.html")
    page = (cli.folder / "ahead.html").read_text()
    assert "90 % prediction interval" in page and "<svg" in page
    study(cli.runs, {size: list(RUNS[size]) for size in ("1:1", "1:2")}, "b")
    assert "not enough points" in cli("predict", "b", "--nodes", "4", code=2).stderr
    told = " ".join(cli("predict", "b", "--nodes", "4", "--all-reduce", "0.01").stdout.split())
    assert "90 % prediction interval" in told and "not held against published" in told


def test_predict_crosses_to_other_nodes_by_the_sites_peaks(cli: Cli, tmp_path: Path) -> None:
    """370 images a second in batches of 128 are steps of 0.346 s; 40 MB at 1 GB/s after 2 ms are 12 % of that."""
    run = study(cli.runs, {"1:1": list(RUNS["1:1"])})
    site = tmp_path / "mine.yaml"
    site.write_text("schema: 1\nname: mine\nhosts: [n1, n2, n3, n4]\nlauncher: ssh\n")
    words = ("predict", "a", "--nodes", "2", "--site", str(site))
    assert "nothing is kept yet" in cli(*words, code=2).stderr
    peaks = Peaks(1, "mine", "cpu", 0.0, "earlier", ["n1", "n2", "n3", "n4"])
    kept = tmp_path / "mine.peaks.json"
    kept.write_bytes(msgspec.json.encode(peaks))
    assert "no all-reduce between hosts" in cli(*words, code=2).stderr
    # Between four hosts a ring carries one and a half times what it does between two.
    messages = [Message("between", "all_reduce", size, 4, 1.5 * (0.002 + size / 1e9), 0, 0) for size in (1000, 10**8)]
    kept.write_bytes(msgspec.json.encode(msgspec.structs.replace(peaks, messages=messages)))
    assert "how many parameters" in cli(*words, code=2).stderr
    for file in run.path.rglob(EVENTS):
        file.write_bytes(
            file.read_bytes() + b'{"k":"NOTE","rank":0,"seq":9999,"t":1,"name":"parameters","value":10000000}\n'
        )
    (series,) = cli.json(*words)["series"]
    (told,) = series["predictions"]
    assert "12.1 % of a step" in say(told["method"]) and "42 ms by the site's peaks" in say(told["notes"])
    assert told["low"] < 2 * 370 / 1.121 < told["value"] < 2 * 370 < told["high"] * 1.01
