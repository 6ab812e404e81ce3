"""One lab for all tests of a session; made with real parts, or skipped with a loud reason."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab import packages, site
from lab.lab import Lab, labs
from lab.layout import Options
from tests.conftest import Cli
from trainmark.errors import UserError

PROGRAM = """
import os, time
import trainmark_probe as probe

probe.init(unit="things")
probe.init_end()
probe.train_start()
for step in range(int(os.environ.get("STEPS", "5"))):
    if os.path.exists(os.environ.get("BRAKE", "/no")):
        break
    time.sleep(float(os.environ.get("STEP_SECONDS", "0.02")))
    probe.step(8, loss=1.0 / (step + 1))
probe.train_end()
probe.finish()
print("host", os.uname().nodename, "rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
"""
# In a host: the processes that belong to some attempt.
_LEFT = """
import glob
for path in glob.glob("/proc/[0-9]*/environ"):
    try:
        if b"TRAINMARK_TOKEN=" in open(path, "rb").read():
            print(open(path.replace("environ", "cmdline")).read().replace(chr(0), " "))
    except OSError:
        pass
"""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Two hosts with docker and podman."""
    yield from make_lab(Options(name=f"test{os.getpid()}", nodes=2, docker=True))


def make_lab(options: Options) -> Iterator[Lab]:
    """A lab for a session. TRAINMARK_LAB names one that is up already, and stays up."""
    why = packages.hindrance()
    if why:
        _skip(f"the lab {why}")
    name = os.environ.get("TRAINMARK_LAB")
    _remove_orphans()
    try:
        made = Lab.make(msgspec.structs.replace(options, name=name) if name else options, install=True)
    except UserError as error:
        _skip(f"no lab of real hosts: {error}")
    yield made
    if not name:
        made.down()


def _remove_orphans() -> None:
    """Labs of sessions that were killed: their names end with the pid of nobody."""
    for made in labs():
        owner = re.fullmatch(r"(?:test|fleet|side|slurm|automl)(\d+)", made.layout.options.name)
        if owner and not Path("/proc", owner[1]).exists():
            made.down()


def _skip(reason: str) -> None:
    if os.environ.get("TRAINMARK_LAB_REQUIRED"):
        pytest.fail(reason)
    warnings.warn(f"LAB TESTS ARE SKIPPED: {reason}", stacklevel=2)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def digits(lab: Lab) -> Path:
    """A small data set where all hosts see it."""
    from tests.workloads.conftest import write_digits

    folder = lab.layout.shared / "digits"
    folder.mkdir()
    return write_digits(folder)


@pytest.fixture(scope="session")
def light_torch(lab: Lab) -> Path:
    """A folder with a PyTorch for hosts that are only asked whether they have one: the real one takes seconds each."""
    folder = lab.layout.shared / "light"
    folder.mkdir(exist_ok=True)
    (folder / "torch.py").write_text('__version__ = "1.0"\n\ndef get_num_threads():\n    return 1\n')
    return folder


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Lab]:
    """The lab, whole again after whatever the test did to it, with no files of rounds that were given up."""
    yield lab
    for host in lab.nodes:
        if lab.alive(host):
            lab.plug(host)
        else:
            lab.boot(host)
        shutil.rmtree(lab.layout.host(host) / "home/root/.trainmark/runs", ignore_errors=True)


@pytest.fixture
def site_file(hosts: Lab, tmp_path: Path) -> Callable[..., Path]:
    """Writes a site for the lab's hosts, with whatever a test wants to be different; `env` is added."""

    def write(name: str = "site", env: dict[str, str] | None = None, **more: Any) -> Path:
        file = tmp_path / f"{name}.yaml"
        content = site.content(hosts.layout, **more)
        content["env"].update(env or {})
        file.write_text(json.dumps(content))
        return file

    return write


@pytest.fixture
def pair(make_workload: Callable[..., Path], make_suite: Callable[..., Path]) -> Path:
    """A suite with one case on both hosts. Its workload lies where the hosts cannot see it."""
    make_workload(PROGRAM)
    return make_suite("  - thing:none:cpu:2:1:1", extra="retries: 0")


def wrong_host_key(lab: Lab, folder: Path) -> Path:
    """An ssh configuration for which node1 shows the key of node2."""
    first, second = (lab.layout.base / "known_hosts").read_text().splitlines()[1:3]
    (folder / "known").write_text(f"{first.rpartition(' ')[0]} {second.split()[-1]}\n{second}\n")
    text = lab.layout.ssh_config.read_text()
    (folder / "wrong").write_text(text.replace(str(lab.layout.base / "known_hosts"), str(folder / "known")))
    return folder / "wrong"


def refused_key(lab: Lab, folder: Path) -> Path:
    """An ssh configuration with a key that no host knows."""
    text = lab.layout.ssh_config.read_text()
    (folder / "refused").write_text(text.replace("client/key", "client/nokey").replace("User root", "User bench"))
    return folder / "refused"


def processes(lab: Lab, host: str) -> list[str]:
    """Command lines in a host that belong to some attempt."""
    return lab.on(host, sys.executable, "-c", _LEFT).stdout.splitlines()


def left(lab: Lab) -> dict[str, list[str]]:
    """What attempts have left on the hosts: processes, containers, folders. Empty when all is well."""
    found: dict[str, list[str]] = {}
    for host in lab.nodes:
        lines = processes(lab, host)
        for engine in ("docker", "podman"):
            lines += lab.on(host, engine, "ps", "-aq", "--filter", "label=trainmark.run", check=False).stdout.split()
        lines += [str(path) for path in (lab.layout.host(host) / "home/root/.trainmark/runs").glob("*")]
        lines += scraps(lab, host)
        if lines:
            found[host] = lines
    return found


def scraps(lab: Lab, host: str) -> list[str]:
    """What launchers of ranks put beside the folders of attempts: sessions in /tmp, segments of shared memory."""
    found = lab.on(host, "find", "/tmp", "/dev/shm", "-mindepth", "1", "-maxdepth", "1").stdout.split()
    ours = re.compile(r".*/(trainmark-[0-9a-f]+$|ompi\.|vader|pmix|spmix|openmpi|psm|ucx)")
    return [path for path in found if ours.match(path)]


def soon_clean(lab: Lab, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while left(lab) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left(lab) == {}


def cases(cli: Cli) -> dict[str, Any]:
    """The newest run's report, by case."""
    report = json.loads(cli("report", cli.run_id(), "--format", "json").stdout)
    return {case["case"]: case for case in report["cases"]}


def only_case(cli: Cli) -> Any:
    (case,) = cases(cli).values()
    return case


def attempt_dirs(cli: Cli) -> list[Path]:
    return sorted((cli.runs / cli.run_id()).glob("*/round*/attempt*"))
