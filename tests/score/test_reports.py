"""Whole run directories, scored through the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import trainmark
from tests.conftest import Cli
from trainmark.i18n.speaker import say
from trainmark.report import build
from trainmark.report.charts.axes import thin
from trainmark.report.charts.records import MOST_POINTS as MOST
from trainmark.report.make import attempt
from trainmark.report.show import show
from trainmark.score.figures.definitions import DEFINITIONS, EVALUATION
from trainmark.store.rundir import EVENTS
from trainmark.testing.synthetic import Load, Shape, write_run

SHAPE = Shape(steps=1200, warmup=60, noise=0.02, memory=0.5, outliers=0.01, evaluate_every=400, data=0.05)


def test_a_report_has_rounds_curves_and_what_stands_behind_the_headline(tmp_path: Path) -> None:
    shapes = [SHAPE, None, SHAPE, SHAPE]
    run = write_run(tmp_path, "noop:none:cpu:2:2:4", shapes, load=Load(foreign=1.0, watts=40.0))
    report = build.build(run, series=True)
    (case,) = report.cases
    headline = case.measurements["throughput"]
    assert headline.value == pytest.approx(320, rel=0.02) and headline.n == 3
    told = {flag.reason.code: flag for flag in case.flags}
    assert headline.flags == case.flags and say(told["rounds-succeeded"].reason) == "3 of 4 rounds succeeded"
    assert (told["disturbed"].rounds, told["disturbed"].of, told["disturbed"].severity) == (3, 3, "warning")
    assert "n1: other programs kept 1.00 processors busy (limit 0.25); 1 more" in say(told["disturbed"].reason)
    assert [flag.reason.code for flag in case.runs[0].flags] == ["disturbed"]
    assert say(case.variance_level) == "3 rounds, 1 allocation, nodes n1–n2"
    first = case.runs[0]
    assert (first.round, first.hosts, first.outcome) == (1, ["n1", "n2"], "steady")
    assert first.window_first is not None and abs(first.window_first - 61) <= 60 and first.window_last == 1200
    assert sum(first.phases.values()) == pytest.approx(first.end_to_end)
    assert sum(first.histogram_counts) == 1200 - first.window_first + 1
    assert len(first.histogram_edges) == len(first.histogram_counts) + 1
    series = first.series
    assert series is not None and series.step_time is not None and series.loss is not None
    assert len(series.step_time.x) <= MOST and max(series.step_time.y) == pytest.approx(  # type: ignore[type-var]
        max(first.step_time["max"], 0.3), rel=0.2
    )
    assert series.loss.y[-1] == pytest.approx(1.0) and series.evaluations[0].x == [400, 800, 1200]
    assert [curve.name for curve in series.utilisation][:2] == ["n1 cpu", "n1 mem_used"]
    assert report.environment["python"] == {"version": "3.11.0"}
    assert "3/4" in show(report)


def test_without_being_asked_a_report_has_no_curves(tmp_path: Path) -> None:
    run = write_run(tmp_path, "noop:none:cpu:1:1:1", [Shape(steps=50)])
    assert build.build(run).cases[0].runs[0].series is None


def test_every_measurement_is_explained(tmp_path: Path) -> None:
    page = (Path(trainmark.__file__).parents[2] / "docs" / "metrics.md").read_text()
    run = write_run(tmp_path, "mnist:pytorch:cpu:1:1:2", [SHAPE, SHAPE], load=Load(watts=5.0))
    found = build.build(run).cases[0].measurements
    assert set(DEFINITIONS) < set(found)
    for name, measurement in found.items():
        row = f"| `{EVALUATION}METRIC` |" if name.startswith(EVALUATION) else f"| `{name}` |"
        assert row in page, name
        assert measurement.formula and measurement.unit and (measurement.value is not None or measurement.reason), name
        assert measurement.value is None or measurement.method, name


def test_a_run_is_scored_the_same_from_the_cache_and_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path, "noop:none:cpu:1:2:2", [SHAPE, SHAPE], load=Load())
    plain = build.build(run, series=True)
    monkeypatch.setattr(attempt, "CACHE_FROM", 0)
    assert build.build(run, series=True) == plain
    with monkeypatch.context() as patch:
        patch.setattr(attempt.columns, "read", None)  # whoever reads events now fails
        assert msgspec.json.encode(build.build(run, series=True)) == msgspec.json.encode(plain)
    file = next(run.path.rglob(EVENTS))
    whole, stat = file.read_bytes(), file.stat()
    # Same size, same time, other content: not the same run.
    file.write_bytes(whole.replace(b'"n":8', b'"n":9'))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert build.build(run).cases[0].measurements["samples"].value != plain.cases[0].measurements["samples"].value


def test_thinning_keeps_extremes_and_gaps() -> None:
    x = [float(number) for number in range(10_000)]
    y: list[float | None] = [1.0] * 10_000
    y[1234], y[7777] = 99.0, -5.0
    y[5000:6000] = [None] * 1000
    kept_x, kept_y = thin(x, y)
    assert len(kept_x) <= MOST and kept_x == sorted(kept_x)
    known = [value for value in kept_y if value is not None]
    assert (max(known), min(known)) == (99.0, -5.0) and None in kept_y


def test_runs_without_steps_import_nothing_heavy(cli: Cli) -> None:
    argv = ["run", "noop:none:cpu:1:1:2", "--preset", "smoke", "--json"]
    code = f"import sys; from trainmark.cli.main import main; main({argv}); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=cli.folder)
    result, modules = done.stdout.splitlines()
    (case,) = json.loads(result)["cases"]
    assert case["measurements"]["end_to_end_time"]["n"] == 2
    for heavy in ("numpy", "scipy", "torch", "rich"):
        assert f"'{heavy}'" not in modules, heavy


def test_a_suite_can_fix_the_window(cli: Cli, tmp_path: Path) -> None:
    suite = tmp_path / "fixed.yaml"
    body = "schema: 1\nname: fixed\npreset: smoke\nset: {seconds: 0.3, steps: 30}\ncases: ['noop:none:cpu:1:1:1']\n"
    suite.write_text(body + "window: {skip: 10, steps: 15}\n")
    (case,) = cli.json("run", str(suite))["cases"]
    assert case["runs"][0]["outcome"] == "fixed" and case["runs"][0]["window_first"] == 11
    assert case["measurements"]["throughput"]["value"] == pytest.approx(100, rel=0.5)
    suite.write_text(body + "window: {skip: 0, steps: 15}\n")
    assert "window.skip: found 0, allowed is a whole number from 1" in cli("run", str(suite), code=2).stderr
    suite.write_text(body + "window: {skip: 5}\n")
    assert "window" in cli("run", str(suite), code=2).stderr
