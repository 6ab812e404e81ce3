"""Reports of large runs: kept, made again when a file changed, and made by several processes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.runs import finished_run, speed_events
from trainmark.report import build
from trainmark.report.make import cache, parallel
from trainmark.report.make.compare import Side, compare_many
from trainmark.report.records import Report
from trainmark.store import rundir
from trainmark.store.rundir import EVENTS, RunDir

CASES = 10


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LEAST_ROUNDS", 3 * CASES)
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path / "cache"))


def large(folder: Path, name: str, speed: float) -> RunDir:
    speeds = {f"w{number}:none:cpu:1:1:3": [speed, speed * 1.01, speed * 0.99] for number in range(CASES)}
    return RunDir(finished_run(folder, name, speeds))


def test_a_comparison_of_kept_headlines_is_that_of_whole_reports(tmp_path: Path) -> None:
    runs = [large(tmp_path, "a", 50.0), large(tmp_path, "b", 45.0)]
    whole = [Side(build.build(run), run.manifest(), None) for run in runs]
    short = [Side(cache.find(run, headlines=True) or pytest.fail("not kept"), run.manifest(), None) for run in runs]
    assert "step_time_p50" in whole[0].report.cases[0].measurements
    assert set(short[0].report.cases[0].measurements) == {"throughput", "sustained_throughput"}
    assert compare_many(short, "throughput", 0.03, 0.05) == compare_many(whole, "throughput", 0.03, 0.05)
    assert build.build(runs[0]) == whole[0].report


def test_what_a_run_kept_is_found_however_its_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path.resolve() / "runs"
    build.build(large(runs, "a", 50.0))
    monkeypatch.chdir(tmp_path)
    for folder, name in ((Path("runs"), "a"), (Path("runs"), "last"), (Path("elsewhere"), "runs/a")):
        assert cache.find(rundir.find(folder, name)) is not None, name


def test_what_changed_is_read_again(tmp_path: Path) -> None:
    run = large(tmp_path, "a", 50.0)
    build.build(run)
    (file,) = run.path.glob(f"w3+*/round2/*/*/{EVENTS}")
    file.write_bytes(b"\n".join(msgspec.json.encode(event) for event in speed_events(25.0)) + b"\n")
    assert cache.find(run) is None and cache.find(run, headlines=True) is None
    assert 25.0 in _inputs(build.headlines(run), 3)
    # A node that is new in a folder changes nothing else.
    (file.parent.parent / "late_noderank1").mkdir()
    assert cache.find(run) is None


def test_several_processes_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = large(tmp_path, "a", 50.0)
    alone = build.build(run)
    monkeypatch.setattr(parallel, "ROUNDS_EACH", CASES)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1, 2})
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path / "other"))
    begun: list[object] = []
    start = parallel._elsewhere
    monkeypatch.setattr(parallel, "_elsewhere", lambda *words: begun.append(words) or start(*words))
    assert build.build(run) == alone and len(begun) == 2
    # A package of that name in the current folder is none of theirs.
    (tmp_path / "trainmark").mkdir()
    (tmp_path / "trainmark" / "__init__.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    assert parallel._elsewhere(run, 0, 1) == build.some_cases(run, 0, 1)
    # A helper that dies costs time and nothing else.
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path / "third"))
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert build.build(run) == alone


def _inputs(report: Report, index: int) -> list[float]:
    return [round(value, 3) for value in report.cases[index].measurements["throughput"].inputs]
