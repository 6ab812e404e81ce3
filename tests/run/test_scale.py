"""A run on more hosts than anybody has at hand; `benchmarks/scale.py` does the same with a thousand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab.fake_hosts import FakeHosts
from trainmark.launch.protocol import REGISTRY
from trainmark.launch.ssh.launcher import SshLauncher
from trainmark.report.build import build
from trainmark.run import planning, session
from trainmark.run.observers import Observer
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.site import Site
from trainmark.spec.states import JobState

HOSTS = [f"host{number}" for number in range(50)]


def test_fifty_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 400 ranks start, beat, and are counted; a host twice as slow as the others sets the pace of all."""
    site = Site(name="made-up", launcher="ssh", hosts=HOSTS)
    plan = planning.plan_suite(suites.single("noop:pytorch:cpu:50:8:1", "quick"), site, {}, 1)
    fleet = FakeHosts(HOSTS, seconds=0.3, beat_seconds=0.1, speeds={"host7": 0.5})
    monkeypatch.setattr(REGISTRY, "get", lambda *_: SshLauncher(fleet))
    try:
        run = session.create(plan, tmp_path)
        assert session.drive(run, plan, Observer()) is JobState.SUCCEEDED
    finally:
        fleet.close()
    (case,) = build(run).cases
    throughput = case.measurements["throughput"]
    assert throughput.value == pytest.approx(400 * 8 / 0.3, rel=0.01)
    assert "host7" in case.runs[0].hosts and len(case.runs[0].hosts) == 50


def test_rounds_of_a_block_run_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the plan allows, each on hosts of its own, and the next block only when all are over."""
    from trainmark.plan.fleet import on_nodes

    site = Site(name="made-up", launcher="ssh", hosts=HOSTS)
    (case,) = suite_cases.expand(suites.single("noop:none:cpu:1:1:5", "quick"), site, {})
    plan = on_nodes(case, site, planning.places(site, set()), HOSTS[:6], 3, 1, together=True)
    seen: list[tuple[str, int]] = []

    class Watched(Observer):
        def started(self, *args: object) -> None:
            seen.append(("started", args[1].round))  # type: ignore[attr-defined]

        def ended(self, *args: object) -> None:
            seen.append(("ended", args[1].round))  # type: ignore[attr-defined]

    for width in (6, 1):
        fleet = FakeHosts(HOSTS[:6], seconds=0.0, beat_seconds=0.05)
        monkeypatch.setattr(REGISTRY, "get", lambda *_, fleet=fleet: SshLauncher(fleet))
        seen.clear()
        try:
            planned = msgspec.structs.replace(plan, width=width)
            session.drive(session.create(planned, tmp_path), planned, Watched())
        finally:
            fleet.close()
        first = [("started", 1)] * 6 + [("ended", 1)] * 6 if width == 6 else [("started", 1), ("ended", 1)] * 6
        assert len(seen) == 36 and sorted(seen[:12]) == sorted(first)
        assert width == 6 or seen[:12] == first
