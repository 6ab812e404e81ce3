"""What ranks do wrong fails their own case, with the right state and reason, and nothing is left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli, processes_with
from tests.faults.conftest import case_named, good_case
from trainmark.i18n.speaker import say

Make = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize(
    ("mode", "state", "reason", "rank", "last"),
    [
        ("exit", "FAILED", "rank 1 exited with code 1", 1, "it broke here"),
        ("kill", "FAILED", "rank 1 was killed by signal 9", 1, "mode kill rank 1"),
        ("nan", "INVALID", "loss is NaN at step 4 on rank 1", 1, None),
    ],
)
def test_a_bad_rank(cli: Cli, misbehave: Make, mode: str, state: str, reason: str, rank: int, last: str | None) -> None:
    report = cli.json("run", str(misbehave(mode)), code=1)
    bad = case_named(report, mode)
    assert (bad["state"], reason in say(bad["reason"])) == (state, True), bad
    assert bad["failure"]["rank"] == rank
    if last:
        assert any(last in line for line in bad["failure"]["last_lines"]), bad["failure"]
    assert not bad["measurements"], "a bad case has no speed"
    assert good_case(report)["state"] == "SUCCEEDED" and report["state"] == "FAILED"


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("squat", "something in the round put a folder where the agent writes its result: "),
        ("remove", "something in the round removed its own folder, and the result with it: "),
    ],
)
def test_a_rank_that_spoils_the_result(cli: Cli, misbehave: Make, mode: str, reason: str) -> None:
    report = cli.json("run", str(misbehave(mode)), code=1)
    bad = case_named(report, mode)
    assert (bad["state"], say(bad["reason"]).startswith(reason)) == ("LOST", True), bad
    assert good_case(report)["state"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("mode", "deadlines", "reason"),
    [
        ("hang-start", "deadlines: {start: 3}", "rank 1 did not reach its first step within 3 s"),
        ("hang-step", "deadlines: {step: 3}", "rank 1"),
        ("stubborn", "deadlines: {total: 4, stop: 1}", "4 s"),
    ],
)
def test_hangs(
    cli: Cli, misbehave: Make, monkeypatch: pytest.MonkeyPatch, mode: str, deadlines: str, reason: str
) -> None:
    if mode == "stubborn":
        monkeypatch.setenv("STEPS", "1000")
    report = cli.json("run", str(misbehave(mode, extra=deadlines, alone=True)), code=1)
    bad = case_named(report, mode)
    assert (bad["state"], reason in say(bad["reason"])) == ("TIMEOUT", True), bad
    if mode == "hang-step":
        assert any("time.sleep" in line or "main.py" in line for line in bad["failure"]["last_lines"]), bad["failure"]


@pytest.mark.parametrize("containment", ["pidns", "cgroup", "subreaper"])
def test_children_in_their_own_session_are_gone(cli: Cli, misbehave: Make, tmp_path: Path, containment: str) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"schema: 1\ncontainment: {containment}\n")
    ready = cli("run", "noop", "--site", str(site), code=None)
    if ready.returncode != 0:
        pytest.skip(f"containment {containment} is not to be had here: {ready.stdout}")
    report = cli.json("run", str(misbehave("orphans")), "--site", str(site))
    assert report["state"] == "SUCCEEDED"
    assert processes_with(f"ORPHAN={tmp_path}") == []


def test_out_of_memory(cli: Cli, misbehave: Make) -> None:
    bad = case_named(cli.json("run", str(misbehave("memory", alone=True)), code=1), "memory")
    assert (bad["state"], bad["failure"]["kind"]) == ("FAILED", "oom") and "out of memory" in say(bad["reason"]), bad


def test_more_ranks_than_cores_is_allowed_and_said(cli: Cli, misbehave: Make) -> None:
    ranks = (os.cpu_count() or 1) + 2
    report = cli.json("run", str(misbehave("good-enough", procs=ranks)))
    case = case_named(report, "good-enough")
    assert case["state"] == "SUCCEEDED"
    assert any(f"{ranks} ranks" in note for note in [say(one) for one in case["notes"]]), [
        say(one) for one in case["notes"]
    ]
