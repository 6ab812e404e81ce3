"""Where things are measured: fresh folders, equal environments, and all the CPU time that a command causes."""

from __future__ import annotations

import compileall
import ctypes
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import trainmark

HERE = Path(__file__).resolve().parent
OURS = Path(sys.prefix) / "bin"
PEERS = Path(f"{sys.prefix}-perf")
PACKAGE = Path(trainmark.__file__).resolve().parent

T = TypeVar("T")

_BECOME_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>


class Spent(NamedTuple):
    """What a command cost. `started` is its first moment on CLOCK_MONOTONIC, in nanoseconds."""

    cpu: float
    wall: float
    started: int


class Workspace:
    """A folder for everything a benchmark writes. One home for all its commands, a fresh folder for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        home, scratch = folder / "home", folder / "scratch"
        home.mkdir()
        scratch.mkdir()
        self.env = {**os.environ, "HOME": str(home), "TMPDIR": str(scratch), "TRAINMARK_CACHE": str(home / "cache")}
        self.env.pop("TRAINMARK_RUNS", None)
        # As in a user's shell: what is compiled may be kept.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)

    def fresh(self) -> Path:
        """A new, empty folder to run a command in."""
        self._count += 1
        folder = self._folder / f"run{self._count}"
        folder.mkdir()
        return folder

    def spend(self, argv: list[str], cwd: Path, env: Mapping[str, str] | None = None, expect: str = "") -> Spent:
        """Runs a command to its end and counts all its processes. `expect` must be in what it prints."""
        log = cwd / "output.log"
        with log.open("wb") as output:
            started = time.monotonic_ns()
            top = subprocess.Popen(argv, cwd=cwd, env=env or self.env, stdout=output, stderr=subprocess.STDOUT)
        cpu, wall, top.returncode = _reap(top.pid, started)
        said = log.read_text(errors="replace")
        if top.returncode or expect not in said:
            raise SystemExit(f"{' '.join(argv)} failed (exit {top.returncode}):\n{said[-2000:]}")
        return Spent(cpu, wall, started)


def _reap(top: int, started: int) -> tuple[float, float, int]:
    """CPU seconds of every process, wall seconds and exit code of the first. Orphans come to us as the subreaper."""
    cpu = wall = 0.0
    code = 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return cpu, wall, code
        cpu += usage.ru_utime + usage.ru_stime
        if pid == top:
            wall = (time.monotonic_ns() - started) / 1e9
            code = os.waitstatus_to_exitcode(status)


@contextmanager
def workspace() -> Iterator[Workspace]:
    """A workspace that is removed out afterwards. trainmark's byte code is made first, as pip made the peers'."""
    if not compileall.compile_dir(PACKAGE, quiet=1):
        raise SystemExit(f"{PACKAGE} could not be compiled")
    if ctypes.CDLL(None, use_errno=True).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("the kernel does not let this process adopt orphans, so their CPU time would be missed")
    with tempfile.TemporaryDirectory(prefix="trainmark-perf-") as folder:
        yield Workspace(Path(folder).resolve())


def peer(program: str) -> str:
    """A program of the peers' environment. With torch in it TorchX would import more than it needs here."""
    path = PEERS / "bin" / program
    if not path.exists():
        raise SystemExit(f"{path} is missing; `make perf` installs the peers")
    if any(PEERS.glob("lib/python*/site-packages/torch")):
        raise SystemExit(f"{PEERS} holds torch; the peers must be measured without it")
    return str(path)


def interleaved(measures: Mapping[str, Callable[[], T]], repeats: int, warm_ups: int = 1) -> dict[str, list[T]]:
    """Each measure once per repeat, in random order, so that a noisy minute hits all alike. Warm-ups do not count."""
    order = random.Random(1)
    found: dict[str, list[T]] = {name: [] for name in measures}
    for repeat in range(-warm_ups, repeats):
        names = list(measures)
        order.shuffle(names)
        for name in names:
            value = measures[name]()
            if repeat >= 0:
                found[name].append(value)
    return found


def trainmark_run(*words: str) -> list[str]:
    return [str(OURS / "trainmark"), "run", *words]


def only(folder: Path, name: str) -> Path:
    """The one file called `name` below `folder`."""
    (found,) = folder.rglob(name)
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    """What the ranks of the one attempt below `folder` told."""
    return [json.loads(line) for line in only(folder, "events.jsonl").read_text().splitlines()]


def result(folder: Path) -> dict[str, Any]:
    """What the agent of the one attempt below `folder` wrote at its end."""
    found: dict[str, Any] = json.loads(only(folder, "result.json").read_text())
    return found
