"""Runs commands under `trainmark exec` and reads what was counted in each rank."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from trainmark.i18n.speaker import say

SCRIPTS = Path(__file__).with_name("scripts")


class Measured:
    """The report of one command, and the events of its ranks."""

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report
        (self.case,) = report["cases"]
        self.folder = Path(report["dir"])
        self.ranks: dict[int, list[dict[str, Any]]] = {}
        for file in self.folder.glob("*/round1/attempt1/*/events.jsonl"):
            for line in file.read_text().splitlines():
                event = json.loads(line)
                self.ranks.setdefault(event["rank"], []).append(event)

    def steps(self, rank: int) -> list[dict[str, Any]]:
        return [event for event in self.ranks[rank] if event["k"] == "STEP_END"]

    def counts(self, rank: int) -> tuple[int, int]:
        return len(self.steps(rank)), sum(event.get("n", 0) for event in self.steps(rank))

    def phases(self, rank: int) -> int:
        return sum(event["k"] == "PHASE_BEGIN" for event in self.ranks[rank])

    def notes(self, rank: int, name: str) -> list[Any]:
        return [event["value"] for event in self.ranks[rank] if event["k"] == "NOTE" and event["name"] == name]

    def losses(self, rank: int) -> dict[int, float]:
        found: dict[int, float] = {}
        for event in self.ranks[rank]:
            if event["k"] == "LOSS":
                found.update(zip(event["steps"], event["values"], strict=True))
        return found

    def output(self) -> str:
        return "".join(file.read_text(errors="replace") for file in self.folder.glob("*/round1/attempt1/*/rank*.log"))

    @property
    def state(self) -> tuple[str, str]:
        return self.case["state"], say(self.case["reason"])

    def value(self, name: str) -> float | None:
        return self.case["measurements"][name]["value"]


class Exec:
    """`trainmark exec` in a folder with the scripts."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.folder = cli.folder

    def __call__(self, *words: str, code: int | None = 0) -> Measured:
        """`words` up to `--` are options; "python" is the one that runs the tests."""
        cut = words.index("--") + 1
        command = [sys.executable if word == "python" else word for word in words[cut:]]
        done = self.cli("exec", "--json", *words[:cut], *command, code=code)
        return Measured(json.loads(done.stdout))

    def script(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


@pytest.fixture
def trainmark_exec(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Exec:
    for file in SCRIPTS.glob("*.py"):
        shutil.copy(file, cli.folder)
    # Beside other programs, threads that wait by spinning make torch tens of times slower.
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return Exec(cli)
