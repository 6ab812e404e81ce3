"""What many tests share: a place of their own for runs and caches, and workloads made for a test."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from trainmark.run import busy
from trainmark.store import rundir

# How long an example takes says more of the machine than of the test.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# Tests that share something costly, by the beginning of their path: one worker does all of them. xdist's own groups are
# lost on newer versions of pytest.
_TOGETHER = {
    "tests/lab/": "lab",
    "tests/slurm/": "slurm",
    "tests/automl/test_experiment.py": "automl",
    "tests/docs/test_commands.py": "commands",
    "tests/report/test_browser.py": "chromium",
    "tests/api/test_notebook.py": "notebook",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((name for start, name in _TOGETHER.items() if nodeid.startswith(start)), nodeid)

    return Together(config, log)


# A shell starts what it runs in the background with interrupts ignored, and so would be every program of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TRAINMARK = [sys.executable, "-m", "trainmark"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's index, data sets or runs, nor looks for others who work on the machine: the
    other tests do."""
    monkeypatch.setattr(busy, "BUSY", float("inf"))
    monkeypatch.setenv("TRAINMARK_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("TRAINMARK_RUNS", raising=False)


class Cli:
    """The command line with its runs under the test's own folder.

    `cli(...)` calls it in this process, as the library's other users do; `cli.start` and `cli.process` start the real
    program, for what needs a process: signals, kills, streams that are closed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def start(self, *argv: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*TRAINMARK, *argv],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRAINMARK_RUNS": str(self.runs)},
            **options,
        )

    def process(self, *argv: str, code: int | None = 0, timeout: float = 240.0) -> subprocess.CompletedProcess[str]:
        """A real process, run to its end; `code` is the expected exit code, None for any."""
        process = self.start(*argv)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"trainmark {' '.join(argv)} took over {timeout} s\n{out}\n{err}")
        return self._checked(argv, process.returncode, out, err, code)

    def __call__(self, *argv: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """In this process, to its end; `code` is the expected exit code, None for any."""
        from trainmark.cli.main import main

        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace", write_through=True) for _ in range(2))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRAINMARK_RUNS", str(self.runs))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.chdir(self.folder)
            returned = main(list(argv))
        texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
        return self._checked(argv, returned, *texts, code)

    def _checked(
        self, argv: tuple[str, ...], returned: int, out: str, err: str, code: int | None
    ) -> subprocess.CompletedProcess[str]:
        if code is not None:
            assert returned == code, f"exit code {returned}, expected {code}\n{out}\n{err}"
        return subprocess.CompletedProcess(argv, returned, out, err)

    def json(self, *argv: str, code: int | None = 0) -> Any:
        return json.loads(self(*argv, "--json", code=code).stdout)

    def run_id(self) -> str:
        """The newest run."""
        return rundir.find(self.runs, None).id


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


WORKLOAD = """\
schema: 1
name: {name}
title: made for a test
unit: things
entry: {{none: main.py}}
probe: {probe}
parameters:
  mode: {{type: str, default: good}}
  batch: {{type: int, default: 8, min: 1, max: 1024, help: things per step}}
  lr: {{type: float, default: 0.1, locked: true}}
  dtype: {{type: str, default: fp32, choices: [fp32, bf16]}}
  fused: {{type: bool, default: false}}
presets:
  smoke: {{}}
  large: {{batch: 16}}
devices:
  nvidia: {{batch: 64}}
deadlines: {{start: 20, step: 20, total: 60, stop: 2}}
"""


@pytest.fixture
def make_workload(tmp_path: Path) -> Callable[..., Path]:
    """Writes a workload into `tmp_path/workloads/NAME` whose program is the given text."""

    def make(program: str = "", name: str = "thing", *, probe: bool = True, yaml: str = WORKLOAD) -> Path:
        folder = tmp_path / "workloads" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "workload.yaml").write_text(yaml.format(name=name, probe=str(probe).lower()))
        (folder / "main.py").write_text(program)
        return folder

    return make


@pytest.fixture
def make_suite(tmp_path: Path) -> Callable[..., Path]:
    """Writes `tmp_path/NAME.yaml`; `cases` is YAML text for a list."""

    def make(cases: str, name: str = "suite", extra: str = "") -> Path:
        file = tmp_path / f"{name}.yaml"
        (tmp_path / "workloads").mkdir(exist_ok=True)
        file.write_text(f"schema: 1\nname: {name}\npreset: smoke\nworkloads: [workloads]\n{extra}\ncases:\n{cases}\n")
        return file

    return make


def processes_with(text: str) -> list[int]:
    """Pids of living processes whose environment holds `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if text.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """After the test no process that was started for this folder's runs is alive."""
    yield
    import time

    deadline = time.monotonic() + 10
    while (left := processes_with(f"TRAINMARK_RUNS={tmp_path}")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == [], [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
