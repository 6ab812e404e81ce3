"""Runs the reference programs as an agent would: one process per rank, on tiny data, on one thread each."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
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


class Runner:
    """Starts all ranks of a workload in a folder and waits for them."""

    def run(self, script: str, folder: Path, params: dict[str, Any], ranks: int = 1, **config: Any) -> Outcome:
        folder.mkdir(parents=True, exist_ok=True)
        given = {"device": "cpu", "backend": "gloo", "workdir": str(folder), "seed": 5, "params": params, **config}
        (folder / "config.json").write_text(json.dumps(given))
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
