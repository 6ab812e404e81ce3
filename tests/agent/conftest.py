"""Fixtures of the agent's tests."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .harness import Node, agent_says, carriers

KINDS = ("pidns", "cgroup", "subreaper")


@functools.cache
def selftest() -> dict[str, Any]:
    return agent_says("selftest")


@pytest.fixture(params=KINDS)
def containment(request: pytest.FixtureRequest) -> str:
    """Every containment of containment this machine allows."""
    found = selftest()["kinds"][request.param]
    if not found["usable"]:
        pytest.skip(f"containment {request.param} cannot be used here: {found['why']}")
    name: str = request.param
    return name


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """An attempt to fill in; whatever it started is gone afterwards, even when the test fails."""
    made = Node(tmp_path)
    yield made
    if made.agent is not None and made.agent.poll() is None:
        made.agent.kill()
        made.agent.wait()
    if carriers(made.token):
        agent_says("sweep", made.token)
