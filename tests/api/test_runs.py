"""The library: runs from plain calls, from threads, and in the background."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import trainmark as tm
from trainmark import api, api_campaigns
from trainmark.api_objects import ProgressUpdate
from trainmark.errors import UserError
from trainmark.run import lease
from trainmark.spec.states import JobState

CASE = "noop:none:cpu:1:1:1"
LONG = "noop:none:cpu:1:1:1@seconds=60"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_case_is_one_call(runs: Path) -> None:
    updates: list[ProgressUpdate] = []
    run = tm.run(CASE, runs=runs, preset="smoke", seed=3, on_progress=updates.append)
    assert run.state is JobState.SUCCEEDED and run.path == runs / run.id and run.plan.seed == 3
    assert [one.event for one in updates if one.event != "running"] == ["started", "ended"]
    assert (updates[-1].done, updates[-1].rounds, updates[-1].state) == (1, 1, JobState.SUCCEEDED)
    assert run.report().cases[0].state is JobState.SUCCEEDED
    assert run.report("text") in tm.report(run.id[-4:], "text", runs=runs) + "\n"
    assert CASE in run.report("csv") and "started" in run.logs(what="run")
    assert run.folder.manifest().command == [f"trainmark.run({CASE!r})"]
    assert f"<b>{run.id}</b>" in run._repr_html_() and "SUCCEEDED" in repr(run)


def test_frames(runs: Path) -> None:
    run = tm.run(["noop:none:cpu:1:1:2", "noop:none:cpu:1:2:1"], runs=runs, preset="smoke")
    frame = run.to_frame()
    cases = {"noop:none:cpu:1:1:2@preset=smoke", "noop:none:cpu:1:2:1@preset=smoke"}
    assert set(frame["case"]) == cases and "value" in frame
    assert list(run.to_frame("rounds")["round"]) == [1, 2, 1]
    assert run.to_frame(library="polars").height == len(frame)
    with pytest.raises(UserError, match="allowed is `pandas` or `polars`"):
        run.to_frame(library="numpy")  # type: ignore[arg-type]


def test_a_library_that_is_missing_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tm.run(CASE, runs=runs, preset="smoke")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match=r"pip install 'trainmark\[frames\]'"):
        run.to_frame()


def test_suites_and_sites_made_in_python(tmp_path: Path) -> None:
    made = tm.suite({"cases": ["noop:none:cpu:1:1:3"], "preset": "smoke"})
    assert made.suite.name == "suite" and tm.suite(made) is made
    with pytest.raises(UserError, match=r"suite: .*unknown"):
        tm.suite({"cases": [], "nonsense": 1})
    site = tm.site({"name": "pair", "launcher": "ssh", "hosts": ["node[1-2]"]})
    assert site.hosts == ["node1", "node2"] and tm.site(site) == site
    assert tm.site().hosts == [os.uname().nodename]
    plan = tm.plan("noop:pytorch:cpu:2:1:1", site, seed=1)
    assert [node.host for node in plan.cases[0].nodes] == ["node1", "node2"]
    assert tm.plan(CASE, set={"seconds": 5}).cases[0].params["seconds"] == 5


def test_a_run_is_opened_by_id_start_end_or_path(runs: Path) -> None:
    first, second = (tm.run(CASE, runs=runs, preset="smoke") for _ in range(2))
    assert {run.id for run in tm.runs(runs)} == {first.id, second.id}
    for name in (first.id, first.id[-4:], first.path, first):
        assert tm.open(name, runs).path == first.path
    assert tm.open(runs=runs).id == second.id
    with pytest.raises(UserError, match="no run `nonsense`"):
        tm.open("nonsense", runs)


class Bang(Exception):
    pass


def test_three_runs_in_threads_of_one_process(runs: Path) -> None:
    """One is stopped, one is killed by an error in its callback; the third does not notice. No lease is left."""
    broken = threading.Event()

    def explode(update: ProgressUpdate) -> None:
        if update.event == "running":
            broken.set()
            raise Bang

    whole = tm.start("noop:none:cpu:1:1:1@seconds=2", runs=runs, preset="smoke")
    stopped = tm.start(LONG, runs=runs, preset="smoke")
    killed = tm.start(LONG, runs=runs, preset="smoke", on_progress=explode)
    assert broken.wait(60)
    assert stopped.status().state is JobState.RUNNING
    assert stopped.stop().state is JobState.CANCELLED
    with pytest.raises(Bang):
        killed.wait(60)
    assert whole.wait(60).state is JobState.SUCCEEDED
    for handle in (whole, stopped, killed):
        owner = lease.read(handle.run.path)
        assert owner is not None and owner.released
    # What the killed one had begun was ended, and it can be finished.
    assert killed.run.state is JobState.CANCELLED
    assert not [one for one in killed.run.status().rounds if one.state is JobState.RUNNING]


def test_an_event_stops_a_run(runs: Path) -> None:
    stop = threading.Event()

    def enough(update: ProgressUpdate) -> None:
        if update.event == "running":
            stop.set()

    run = tm.run(LONG, runs=runs, preset="smoke", on_progress=enough, stop=stop)
    assert run.state is JobState.CANCELLED


def test_a_process_of_its_own(runs: Path) -> None:
    going = tm.start(LONG, runs=runs, preset="smoke", process=True)
    assert going.status().owner is not None and going.status().owner.pid != os.getpid()  # type: ignore[union-attr]
    with pytest.raises(TimeoutError):
        going.wait(0.1)
    assert going.stop(now=True).state is JobState.CANCELLED
    with pytest.raises(UserError, match="on_progress"):
        tm.start(CASE, runs=runs, process=True, on_progress=print)


def test_nothing_is_started_for_bad_input(runs: Path) -> None:
    with pytest.raises(UserError, match="no workload `nonsense`"):
        tm.run("nonsense:none:cpu:1:1:1", runs=runs)
    assert not runs.exists()


def test_at_most_twenty_names() -> None:
    assert len(api.__all__) + len(api_campaigns.__all__) <= 20
    for module in (api, api_campaigns):
        for name in module.__all__:
            assert getattr(tm, name) is getattr(module, name) and getattr(module, name).__doc__, name


def test_the_names_are_there_whatever_is_imported_first() -> None:
    code = "import trainmark as tm; f = tm.run; from trainmark.run import session; assert tm.run is f and callable(f)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "from trainmark import api; import trainmark as tm; assert tm.plan is api.plan and tm.report is api.report"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_it_imports_little() -> None:
    code = "import sys, trainmark; print([name for name in sys.modules if name.startswith('trainmark.')])"
    done: Any = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
