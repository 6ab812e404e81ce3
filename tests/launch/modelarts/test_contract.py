"""The modelarts launcher keeps the contract of all launchers, on an emulated service that really runs jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.modelarts.conftest import site_of
from trainmark.emulate.modelarts.server import Emulator
from trainmark.launch.modelarts.launcher import ModelArtsLauncher
from trainmark.launch.protocol import Launcher
from trainmark.spec.site import Site
from trainmark.testing.launchers import LauncherContract

pytestmark = pytest.mark.cloud


class TestModelArts(LauncherContract):
    @pytest.fixture
    def launcher(self, run_dir: Path) -> Iterator[Launcher]:
        made = ModelArtsLauncher()
        yield made
        assert made.release(run_dir) == []

    @pytest.fixture
    def site(self, emulator: Emulator) -> Site:
        return site_of(emulator, nodes=1)


class TestTwoCards(TestModelArts):
    """An engine that starts the boot file once for each card."""

    @pytest.fixture
    def site(self, emulator: Emulator) -> Site:
        return site_of(emulator, engine={"name": "Ascend-Powered-Engine", "version": "emulated"})


class TestAnImage(TestModelArts):
    @pytest.fixture
    def site(self, emulator: Emulator) -> Site:
        return site_of(emulator, engine=None, image="swr/image:1", nodes=1, flavor=None, pool="emulated-pool", cards=2)
