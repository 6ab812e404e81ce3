"""The slurm launcher keeps the contract of all launchers, on two nodes of a real Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmark.launch.protocol import Launcher
from trainmark.launch.sites import load_site
from trainmark.launch.slurm.launcher import SlurmLauncher
from trainmark.spec.site import Site
from trainmark.store.rundir import LEASE
from trainmark.testing.launchers import LauncherContract

pytestmark = pytest.mark.lab


class TestSlurm(LauncherContract):
    @pytest.fixture
    def run_dir(self, shared: Path) -> Path:
        (shared / "run").mkdir()
        (shared / "run" / LEASE).write_bytes(b'{"epoch": 1}')
        return shared / "run"

    @pytest.fixture
    def launcher(self, run_dir: Path) -> Iterator[Launcher]:
        made = SlurmLauncher()
        yield made
        assert made.release(run_dir) == []

    @pytest.fixture
    def site(self, slurm_site: Callable[..., Path]) -> Site:
        return load_site(slurm_site(), "here")
