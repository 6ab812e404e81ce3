"""A lab with a real Slurm for all tests of a session, and what happens on it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.lab.conftest import make_lab
from trainmark.testing.lab import site, slurm
from trainmark.testing.lab.lab import Lab, wait_for
from trainmark.testing.lab.layout import HEAD, Options


@pytest.fixture(scope="session")
def slurm_lab() -> Iterator[Lab]:
    """A head and two nodes. TRAINMARK_LAB names one that is up already and stays up."""
    yield from make_lab(Options(name=f"slurm{os.getpid()}", nodes=2, slurm=True))


@pytest.fixture
def cluster(slurm_lab: Lab) -> Iterator[Lab]:
    """The lab, whole before the test and with no job of it left afterwards."""
    yield slurm_lab
    for host in slurm_lab.nodes:
        if not slurm_lab.alive(host):
            slurm_lab.boot(host)
        slurm_lab.plug(host)
    slurm.start(slurm_lab)
    assert jobs(slurm_lab) == [], "jobs are left"


def jobs(lab: Lab) -> list[str]:
    """Ids of what is in the queue."""
    return lab.on(HEAD, "squeue", "-h", "-o", "%i").stdout.split()


def running(lab: Lab) -> str:
    """The one job, once it runs."""
    return str(wait_for(lambda: lab.on(HEAD, "squeue", "-h", "-t", "R", "-o", "%i").stdout.strip(), "a running job"))


@pytest.fixture
def shared(cluster: Lab, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder of the test's own that all nodes see."""
    folder = cluster.layout.shared / f"{request.node.name[:40]}-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def slurm_site(cluster: Lab, shared: Path) -> Callable[..., Path]:
    """Writes a site for the lab's Slurm; `asked` is what differs under `slurm:`."""

    def write(asked: dict[str, Any] | None = None, **more: Any) -> Path:
        file = shared / "site.yaml"
        file.write_text(json.dumps(site.slurm_content(cluster.layout, asked, **more)))
        return file

    return write


@pytest.fixture
def slurm_cli(shared: Path) -> Cli:
    return Cli(shared)
