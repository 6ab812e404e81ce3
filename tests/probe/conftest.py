"""Runs small programs that use the probe, as trainmark would start them, and reads what they wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROBE = Path(__file__).parents[2] / "src" / "trainmark" / "probe"


class Program:
    """A program using the probe, and the file it writes to."""

    def __init__(self, folder: Path) -> None:
        self.spool = folder / "spool" / "rank3"
        self.spool.parent.mkdir()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMARK_")}
        self.env |= {"PYTHONPATH": str(PROBE), "TRAINMARK_SPOOL": str(self.spool), "TRAINMARK_RANK": "3"}

    def start(self, body: str, python: str = sys.executable, **options: Any) -> subprocess.Popen[str]:
        code = "import trainmark_probe as probe\n" + body
        return subprocess.Popen([python, "-c", code], env=self.env, text=True, **options)

    def run(self, body: str, python: str = sys.executable) -> str:
        """Its standard error, after it ended well."""
        process = self.start(body, python, stderr=subprocess.PIPE)
        errors = process.communicate(timeout=30)[1]
        assert process.returncode == 0, errors
        return errors

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line, parse_constant=_refuse) for line in self.spool.read_text().splitlines()]

    def kinds(self) -> list[str]:
        return [event["k"] for event in self.events()]


def _refuse(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.fixture
def only(program: Program) -> Callable[[str], list[dict[str, Any]]]:
    """The events of one kind."""
    return lambda kind: [event for event in program.events() if event["k"] == kind]
