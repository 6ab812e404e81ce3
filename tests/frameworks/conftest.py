"""Every framework in an environment of its own, made once for all tests here, and tiny data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.workloads.conftest import write_digits

FRAMEWORKS = ("mindspore", "tensorflow", "jax", "paddle")
# For a developer: a folder in which environments are kept between runs of these tests.
KEPT = "TRAINMARK_TEST_ENVIRONMENTS"
TEXT = "To be, or not to be: that is the question, said the prince; and the rest is silence.\n" * 80


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with all environments. Most of the time is spent on unpacking, so all are made at once."""
    folder = Path(os.environ.get(KEPT) or tmp_path_factory.mktemp("environments"))

    def make(name: str) -> tuple[int, str]:
        argv = [sys.executable, "-m", "trainmark", "env", "create", name]
        env = {**os.environ, "TRAINMARK_CACHE": str(folder)}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=1000, check=False)
        return done.returncode, done.stderr

    with ThreadPoolExecutor(len(FRAMEWORKS)) as pool:
        for name, (code, said) in zip(FRAMEWORKS, pool.map(make, FRAMEWORKS), strict=True):
            assert code == 0, f"{name}: {said[-2000:]}"
    return folder


@pytest.fixture
def whole_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINMARK_CACHE", str(cache))
    return cache


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("digits"), 320, 40)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT)
    return path


class Told:
    """What the ranks of an attempt said; those of the first of the newest run, unless `folder` is another's."""

    def __init__(self, cli: Cli | None, folder: Path | None = None) -> None:
        if folder is None:
            assert cli is not None
            (folder,) = (cli.runs / cli.run_id()).glob("*/round1/attempt1/*_noderank0")
        self.folder = folder
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        self.events = [json.loads(line) for line in lines]

    @classmethod
    def at(cls, folder: Path) -> Told:
        return cls(None, folder)

    def of(self, rank: int, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["k"] == kind and event["rank"] == rank]

    def notes(self, rank: int = 0) -> dict[str, Any]:
        return {event["name"]: event["value"] for event in self.of(rank, "NOTE")}

    def losses(self, rank: int = 0) -> list[float]:
        found = self.by_step(rank)
        return [found[step] for step in sorted(found)]

    def by_step(self, rank: int = 0) -> dict[int, float]:
        """Losses, whether they came with the step or later."""
        found = {event["step"]: event["loss"] for event in self.of(rank, "STEP_END") if "loss" in event}
        for event in self.of(rank, "LOSS"):
            found.update(zip(event["steps"], event["values"], strict=True))
        return found
