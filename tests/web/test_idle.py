"""Jobs that hold devices and use none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import Person
from tests.web.test_jobs import ended, submit, until
from trainmark.errors import UserError
from trainmark.store.rundir import RunDir
from trainmark.web.queue import idle
from trainmark.web.queue.idle import IdleWatch, used
from trainmark.web.server import Server
from trainmark.web.service import samples
from trainmark.web.service.rules import Idle, Rules, SiteRules, load_rules


@pytest.mark.parametrize(
    ("sample", "busy"),
    [
        ({"ranks": {"0": {"cpu": 0.9}}}, True),
        ({"ranks": {"0": {"cpu": 0.001}, "1": {"cpu": 0.002}}}, False),
        ({"ranks": {}}, False),
        # What the devices do decides: a loop that waits for them is no use of them.
        ({"ranks": {"0": {"cpu": 1.0}}, "devices": [{"utilisation": 0.0}, {"utilisation": 0.01}]}, False),
        ({"ranks": {"0": {"cpu": 0.0}}, "devices": [{"utilisation": 0.0}, {"utilisation": 0.5}]}, True),
        ({"ranks": {"0": {"cpu": 1.0}}, "devices": [{"utilisation": None}]}, False),
        # A job's account may have written anything; nobody is stopped for what cannot be read.
        ({"devices": ["x"]}, True),
        ({"devices": [{"index": [], "utilisation": "much"}]}, True),
        ({"ranks": [1]}, True),
    ],
)
def test_what_counts_as_use(sample: dict[str, Any], busy: bool) -> None:
    assert used(sample) is busy


def test_devices_of_others_are_no_use() -> None:
    sample = {"devices": [{"index": 0, "utilisation": 0.9}, {"index": 1, "utilisation": 0.0}]}
    assert used(sample, frozenset({0})) and not used(sample, frozenset({1}))


def test_the_time_without_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    written: list[float] = []

    def following(_run: RunDir, attempt: str, _seen: dict[int, int]) -> tuple[str, list[dict[str, Any]]]:
        found = [{"sample": {"ranks": {"0": {"cpu": cpu}}}} for cpu in written]
        written.clear()
        return attempt, found

    monkeypatch.setattr(samples, "following", following)
    watch, run = IdleWatch(), RunDir(tmp_path)
    assert watch.seconds("a", run, 1000.0) == 0
    written += [0.0, 0.001]
    assert watch.seconds("a", run, 1060.0) == 60
    written += [0.0, 0.8, 0.0]
    assert watch.seconds("a", run, 1120.0) == 0
    assert watch.seconds("a", run, 1200.0) == 80
    watch.keep([])
    assert watch.seconds("a", run, 1300.0) == 0, "a job that was forgotten is new"


def test_what_a_job_wrote_before_is_not_read_and_the_queue_waits_for_no_more_than_a_little(
    measured: Callable[..., tuple[str, RunDir]], admin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run = measured(admin, "one")
    attempt, read = samples.end(run)
    assert read and samples.following(run, attempt, read) == (attempt, [])
    asked: list[str] = []

    def following(_run: RunDir, attempt: str, _seen: dict[int, int]) -> tuple[str, list[dict[str, Any]]]:
        asked.append(attempt)
        return attempt, [{"sample": {"ranks": {"0": {"cpu": 1.0}}}}]

    monkeypatch.setattr(samples, "following", following)
    watch = IdleWatch()
    assert watch.seconds("a", run, 1000.0) == 0 and asked == []
    assert watch.seconds("a", run, 1060.0) == 0 and len(asked) < 100, "it writes faster than anybody reads"


@pytest.mark.slow
def test_an_idle_job_is_told_of_and_stopped(admin: Person, kept: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "_EVERY", 0.5)
    kept.rules = Rules(sites={"local": SiteRules(slots=2, idle=Idle("3s"))})
    busy = submit(admin, command="while :; do :; done")
    lazy = submit(admin, command="sleep 600")
    until(lambda: admin.ask("GET", f"/jobs/{lazy}").json()["job"]["reason_code"] == "job-idle")
    found = admin.ask("GET", f"/jobs/{busy}").json()["job"]
    assert (found["state"], found["reason_code"]) == ("RUNNING", "")
    kept.rules = Rules(sites={"local": SiteRules(slots=2, idle=Idle("3s", stop=True))})
    stopped = ended(admin, lazy)
    assert (stopped["state"], stopped["reason_code"]) == ("CANCELLED", "job-idle-stopped")
    admin.ask("POST", f"/jobs/{busy}/stop", status=202)
    ended(admin, busy)


def test_a_rule_that_is_no_time(server: Server) -> None:
    server.home.rules.write_text("schema: 1\nsites: {local: {idle: {after: soon}}}\n")
    with pytest.raises(UserError, match=r"idle.*after.*15m"):
        load_rules(server.home.rules)
