"""Runs the reference programs on tiny data: as an agent would, one process per rank, or one rank in this process."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "trainmark"
WORKLOADS = PACKAGE / "workloads"
RANK_PATH = [str(PACKAGE / "probe"), str(WORKLOADS / "lib")]

# The tests look into the shared modules too, which ranks find on their path.
sys.path[:0] = [entry for entry in RANK_PATH if entry not in sys.path]


@dataclass
class Outcome:
    codes: list[int]
    errors: list[str]
    spools: list[Path]

    def events(self, kind: str, rank: int = 0) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.spools[rank].read_text().splitlines()]
        return [event for event in lines if event["k"] == kind]

    def notes(self, rank: int = 0) -> dict[str, Any]:
        return {note["name"]: note["value"] for note in self.events("NOTE", rank)}

    def losses(self, rank: int = 0) -> list[float]:
        return [value for event in self.events("LOSS", rank) for value in event["values"]]


def load(path: str) -> ModuleType:
    """A module of a workload's folder, under a name of its own; as a rank does, it finds its neighbours by theirs."""
    file = WORKLOADS / f"{path}.py"
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _neighbours(file.parent):
        spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _neighbours(folder: Path) -> Iterator[None]:
    """Modules of a workload's folder can be imported; several folders have some of the same name."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{folder}/"):
                del sys.modules[name]


class Runner:
    """Runs all ranks of a workload in a folder."""

    def inside(self, script: str, folder: Path, params: dict[str, Any], **config: Any) -> Outcome:
        """One rank in this process, which has imported the framework already."""
        import trainmark_job
        import trainmark_probe

        self._configure(folder, params, config)
        spool, code, error = folder / "spool0", 0, ""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._env(folder, 0, 1, 0, spool).items():
                patch.setenv(name, value)
            patch.delenv("TRAINMARK_PROBE_PID", raising=False)
            importlib.reload(trainmark_probe)
            try:
                with _neighbours(WORKLOADS / Path(script).parent):
                    load(script.removesuffix(".py")).main()
            except trainmark_job.InputError as wrong:
                code, error = trainmark_job.BAD_INPUT, f"error: {wrong}\n"
        importlib.reload(trainmark_probe)
        return Outcome([code], [error], [spool])

    def run(self, script: str, folder: Path, params: dict[str, Any], ranks: int = 1, **config: Any) -> Outcome:
        """A process for each rank."""
        self._configure(folder, params, config)
        port = _free_port()
        spools = [folder / f"spool{rank}" for rank in range(ranks)]
        started = [
            subprocess.Popen(
                [sys.executable, "-u", str(WORKLOADS / script)],
                env=self._env(folder, rank, ranks, port, spools[rank]),
                cwd=folder,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        try:
            errors = [process.communicate(timeout=300)[1] for process in started]
        finally:
            for process in started:
                process.kill()
        return Outcome([process.returncode for process in started], errors, spools)

    def _configure(self, folder: Path, params: dict[str, Any], config: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        given = {"device": "cpu", "backend": "gloo", "workdir": str(folder), "seed": 5, "params": params, **config}
        given["checkpoints"] = str(folder / "checkpoints")
        (folder / "config.json").write_text(json.dumps(given))

    def _env(self, folder: Path, rank: int, ranks: int, port: int, spool: Path) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMARK_")}
        return own | {
            "PYTHONPATH": os.pathsep.join(RANK_PATH),
            "OMP_NUM_THREADS": "1",
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TRAINMARK_RANK": str(rank),
            "TRAINMARK_SPOOL": str(spool),
            "TRAINMARK_CONFIG": str(folder / "config.json"),
        }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def write_idx() -> Any:
    return _write_idx


@pytest.fixture(scope="session")
def runner() -> Runner:
    return Runner()


def _write_idx(path: Path, array: Any) -> None:
    """An IDX file, packed if its name says so."""
    head = bytes((0, 0, 8, array.ndim)) + b"".join(int(count).to_bytes(4, "big") for count in array.shape)
    content = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_digits(folder: Path, train: int = 640, test: int = 120, bright: int = 250) -> Path:
    """Images that can be told apart: each class has a bright row of its own. Two files packed, two plain."""
    random = np.random.default_rng(0)
    for part, count, packed in (("train", train, ".gz"), ("t10k", test, "")):
        labels = random.integers(0, 10, count)
        images = random.integers(0, 60, (count, 28, 28))
        images[np.arange(count), labels * 2 + 4] = bright
        _write_idx(folder / f"{part}-images-idx3-ubyte{packed}", images)
        _write_idx(folder / f"{part}-labels-idx1-ubyte{packed}", labels)
    return folder


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture
def own_digits(tmp_path: Path) -> Path:
    """Digits that a test may spoil."""
    return write_digits(tmp_path, 40, 20)
