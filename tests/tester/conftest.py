"""A tester on a real socket, and a subject with a key of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trainmark.plan.records import Plan
from trainmark.store.rundir import RunDir
from trainmark.tester import subject
from trainmark.tester.client import Link
from trainmark.tester.definition import Definition, Limits
from trainmark.tester.server import Tester as Serving
from trainmark.trust import keys

CASE = "noop:none:cpu:1:1:1@steps=120"
TEST = Definition(
    test="t1",
    model="noop",
    suite={"preset": "smoke", "cases": [CASE]},
    free=("batch",),
    limits=Limits(runs=3, heartbeat_seconds=1, bundle_mb=1),
)


@pytest.fixture(autouse=True)
def _keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the tests, not of whoever runs them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "tester-config"))
    monkeypatch.setenv("TRAINMARK_BESIDE", "1")
    known = {one.name for one in keys.listed()}
    for name in {"tester", "subject", "stranger"} - known:
        keys.create(name)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    made: list[Serving] = []

    def start(**options: Any) -> Serving:
        options = {"definition": TEST, "folder": tmp_path / "tester", "port": 0, **options}
        subjects = {keys.fingerprint(keys.public("subject")): "subject"}
        tester = Serving(key=keys.load("tester"), subjects=subjects, **options)
        made.append(tester.__enter__())
        return tester

    yield start
    for tester in made:
        tester.__exit__()


@pytest.fixture
def tester(serve: Callable[..., Serving]) -> Serving:
    return serve()


def link_to(tester: Serving | str, key: str = "subject", ca: str | None = None) -> Link:
    url = tester if isinstance(tester, str) else tester.url
    return Link(url, keys.public("tester").hex(), keys.load(key), ca)


def taken(
    link: Link,
    runs: Path,
    test: Definition = TEST,
    forged: Callable[[Plan], Plan] = lambda plan: plan,
    **changed: str,
) -> RunDir:
    """A real run of the test, not yet reported. `forged`: what the subject makes of the plan before it runs it."""
    from trainmark.launch import sites
    from trainmark.report.run_log import drive_quietly
    from trainmark.run import planning, session
    from trainmark.run.campaign import Step
    from trainmark.run.stop import StopSwitch

    ticket = subject.take(link)
    plan = forged(planning.plan_suite(test.loaded(), sites.load_site(None), changed, ticket.seed))
    run = session.create(plan, runs)
    subject.attach(run, link, "subject", ticket, test, changed, None)
    drive_quietly(Step("run"), run, plan, StopSwitch())
    return run


def reported(run: RunDir, link: Link, key: str = "subject") -> Any:
    said = subject.report(run, subject.attached(run), link, keys.load(key))
    assert said.verdict is not None
    return said.verdict


def codes(verdict: Any) -> set[str]:
    return {one.reason.code for one in verdict.findings if one.severity == "fault"}


def changed_test(**fields: Any) -> Definition:
    return msgspec.structs.replace(TEST, **fields)
