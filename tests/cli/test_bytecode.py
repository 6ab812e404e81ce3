"""Byte code in one file: made by the first run, never older than its source, never a reason to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import trainmark

Run = Callable[..., str]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the program that may be changed."""
    here = Path(trainmark.__file__).parent
    copy = tmp_path / "src" / "trainmark"
    shutil.copytree(here, copy, ignore=shutil.ignore_patterns("*.codes", "testing"))
    return copy


@pytest.fixture
def run(package: Path, tmp_path: Path) -> Run:
    def call(**more: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(package.parent), **more}
        if "PYTHONDONTWRITEBYTECODE" not in more:
            env.pop("PYTHONDONTWRITEBYTECODE", None)
        argv = [sys.executable, "-m", "trainmark", "run", "noop"]
        done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        return done.stdout

    return call


def kept(package: Path) -> list[Path]:
    return list(package.glob("__pycache__/*.codes*"))


def test_a_changed_source_is_seen_at_once(package: Path, run: Run) -> None:
    run()
    (file,) = kept(package)
    before = file.read_bytes()
    assert "SUCCEEDED" in run() and file.read_bytes() == before
    source = package / "report" / "text.py"
    source.write_text(source.read_text().replace('lines = [f"{run} ', 'lines = [f"changed {run} '))
    assert "changed run" in run()
    assert "changed run" in run() and file.read_bytes() != before


@pytest.mark.parametrize("length", [0, 10, 5000])
def test_a_torn_file_is_made_again(package: Path, run: Run, length: int) -> None:
    run()
    (file,) = kept(package)
    whole = file.read_bytes()
    file.write_bytes(whole[:length])
    assert "SUCCEEDED" in run()
    assert len(file.read_bytes()) > len(whole) // 2 and kept(package) == [file]


def test_nothing_is_written_where_python_writes_nothing(package: Path, run: Run) -> None:
    assert "SUCCEEDED" in run(PYTHONDONTWRITEBYTECODE="1")
    assert not kept(package)
