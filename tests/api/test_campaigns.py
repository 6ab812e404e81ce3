"""Campaigns through the library: the same as through the command line, without one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import trainmark as tm
from lab.fake_hosts import FakeHosts
from tests.campaigns.test_bisect import repository
from tests.campaigns.test_fit import HUNGRY
from trainmark.errors import UserError
from trainmark.launch.protocol import REGISTRY
from trainmark.launch.ssh.launcher import SshLauncher
from trainmark.run.campaign import CampaignStopped
from trainmark.spec.states import JobState

HOSTS = ["n1", "n2", "n3"]
SITE = {"name": "fake", "launcher": "ssh", "hosts": HOSTS}


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    fleets: list[FakeHosts] = []

    def launcher(*_: str) -> SshLauncher:
        fleets.append(FakeHosts(HOSTS, seconds=0.0, beat_seconds=0.05, speeds={"n3": 0.7}))
        return SshLauncher(fleets[-1])

    monkeypatch.setattr(REGISTRY, "get", launcher)
    yield
    for hosts in fleets:
        hosts.close()


@pytest.mark.usefixtures("fleet")
def test_an_acceptance_is_stopped_and_goes_on(tmp_path: Path) -> None:
    stop = threading.Event()
    options = {"case": "noop:none:cpu:1:2:5", "links": False, "check": False, "looks": 1, "seed": 1}
    with pytest.raises(CampaignStopped, match=r"`trainmark resume .*-accept-.*` goes on"):
        tm.accept(SITE, runs=tmp_path, stop=stop, on_progress=lambda _: stop.set(), **options)
    found = tm.accept(resume="last", runs=tmp_path)
    assert {one.node: one.word for one in found.record.nodes} == {"n1": "good", "n2": "good", "n3": "bad"}
    assert found.record.drain == ["n3"] and "n3" in str(found)
    with pytest.raises(UserError, match=r"no option `look`.*did you mean `looks`"):
        tm.accept(SITE, runs=tmp_path, look=1)


def test_a_bisection(tmp_path: Path) -> None:
    commits = repository(tmp_path, ["0.25", "0.28"])
    notes: list[str] = []
    found = tm.bisect(tmp_path / "repo/suite.yaml", commits[0], "main", runs=tmp_path / "runs", on_note=notes.append)
    assert found.answer.commit == commits[1] and "bad is" in notes[0]


def test_the_largest_batch_is_looked_for_first(
    tmp_path: Path, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(HUNGRY)
    scaling = "{grid: [1x1], batch: max, batch_step: 8, memory: 160MiB}"
    run = tm.run(make_suite("  - thing:none:cpu:1:1:1", extra=f"scaling: {scaling}"), runs=tmp_path / "runs")
    assert run.state is JobState.SUCCEEDED and run.plan.kind == "benchmark"
    assert run.plan.cases[0].params["batch"] in (8, 16)


def test_goodput_of_a_run(tmp_path: Path) -> None:
    run = tm.run("noop:none:cpu:1:1:1", runs=tmp_path, preset="smoke")
    found = tm.goodput(run)
    assert [one.goodput.case for one in found.record.cases] == ["noop:none:cpu:1:1:1@preset=smoke"]
    assert "effective training time ratio" in str(found) and "noop" in found._repr_html_()
    with pytest.raises(UserError, match="saves no checkpoints"):
        tm.goodput("noop:none:cpu:1:1:1", kill=0, runs=tmp_path)
