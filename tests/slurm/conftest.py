"""A lab with a real Slurm for all tests of a session, and what happens on it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import site, slurm
from lab.lab import Lab, wait_for
from lab.layout import HEAD, Options
from tests.conftest import WORKLOAD, Cli
from tests.faults import conftest as faults
from tests.lab.conftest import make_lab, processes
from trainmark.i18n.speaker import say
from trainmark.run import session
from trainmark.store import rundir


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
    wait_for(lambda: not [host for host in slurm_lab.nodes if processes(slurm_lab, host)], "the end of all processes")


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
        content = site.slurm_content(cluster.layout, asked, **more)
        if asked and "nodes" in asked:
            del content["hosts"]
        file.write_text(json.dumps(content))
        return file

    return write


@pytest.fixture
def slurm_cli(shared: Path) -> Cli:
    return Cli(shared)


PROGRAM = """
import os, sys, time
import trainmark_probe as probe

probe.init(unit="things")
probe.init_end()
probe.train_start()
hog = []
for step in range(int(os.environ.get("STEPS", "5"))):
    if os.path.exists(os.environ["BRAKE"]):
        break
    if os.environ.get("HOG"):
        hog.append(bytearray(os.urandom(1 << 20)) * 64)
    time.sleep(float(os.environ.get("STEP_SECONDS", "0.1")))
    probe.step(8, loss=1.0 / (step + 1))
probe.train_end()
probe.finish()
"""


class Going:
    """A run in the background, and what its folder tells."""

    def __init__(self, cli: Cli, suite: Path, where: Path, brake: Path) -> None:
        self.cli, self._brake = cli, brake
        self.process = cli.start("run", str(suite), "--site", str(where), "--seed", "1")

    def soon(self) -> None:
        """From now on, rounds that would take long end after their next step."""
        self._brake.touch()

    def again(self) -> None:
        """From now on, rounds take long again."""
        self._brake.unlink()

    def training(self, nodes: int = 2) -> None:
        """Returns when so many nodes have trained a step."""
        faults.wait_for(lambda: len(self._stepping()) >= nodes, process=self.process)

    def _stepping(self) -> list[Path]:
        files = self.cli.runs.glob("*/*/round*/attempt*/*/events.jsonl")
        return [file for file in files if b"STEP_END" in file.read_bytes()]

    def end(self, seconds: float = 300.0) -> tuple[int, str]:
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out + err

    def attempts(self, case: int = 0) -> list[tuple[str, str]]:
        """State and reason of every attempt of a case."""
        run = rundir.find(self.cli.runs, None)
        state = session.state_of(run, run.manifest().plan)
        return [
            (str(one.state), say(one.reason))
            for ref in sorted(state.rounds)
            if ref.case == case
            for one in state.rounds[ref].attempts
        ]


@pytest.fixture
def go(
    slurm_cli: Cli, slurm_site: Callable[..., Path], make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> Iterator[Callable[..., Going]]:
    """Starts a suite: a case on both nodes (or `cases`), with settings for its program in the environment."""
    begun: list[Going] = []

    def start(
        asked: dict[str, Any] | None = None, env: dict[str, str] | None = None, cases: str = "", retries: int = 0
    ) -> Going:
        make_workload(PROGRAM, yaml=WORKLOAD.replace("total: 60", "total: 600"))
        suite = make_suite(cases or "  - thing:none:cpu:2:1:1", extra=f"retries: {retries}")
        brake = slurm_cli.folder / "brake"
        where = slurm_site(asked, env={"OMP_NUM_THREADS": "1", "BRAKE": str(brake), **(env or {})})
        begun.append(Going(slurm_cli, suite, where, brake))
        return begun[-1]

    yield start
    for going in begun:
        if going.process.poll() is None:
            going.process.terminate()
            going.process.communicate(timeout=120)


@pytest.fixture(scope="session")
def four() -> Iterator[Lab]:
    """A lab of its own with four nodes."""
    yield from make_lab(Options(name=f"automl{os.getpid()}", nodes=4, slurm=True))


@pytest.fixture
def slurm_site_for() -> Callable[[Lab, Path], Path]:
    def write(lab: Lab, folder: Path) -> Path:
        file = folder / "site.yaml"
        file.write_text(json.dumps(site.slurm_content(lab.layout, None)))
        return file

    return write
