from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.trust.honest import honest_run, packed
from trainmark.store.rundir import RunDir


@pytest.fixture(autouse=True)
def _keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the tests, not of whoever runs them."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """An honest run, made once for a module; tests work on copies of it."""
    return honest_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def run(made: RunDir, tmp_path: Path) -> RunDir:
    shutil.copytree(made.path.parent, tmp_path / "runs")
    return RunDir(tmp_path / "runs" / made.id)


@pytest.fixture
def bundle(run: RunDir, tmp_path: Path) -> Path:
    return packed(run, tmp_path / "honest.tmk")
