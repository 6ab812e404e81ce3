"""The ssh launcher keeps the contract of all launchers, on two real hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmark.launch.protocol import Launcher
from trainmark.launch.sites import load_site
from trainmark.launch.ssh.launcher import SshLauncher
from trainmark.spec.site import Site
from trainmark.testing.launchers import LauncherContract


class TestSsh(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Iterator[Launcher]:
        made = SshLauncher()
        yield made
        made.connections.close()

    @pytest.fixture
    def site(self, site_file: Callable[..., Path], light_torch: Path) -> Site:
        return load_site(site_file(env={"PYTHONPATH": str(light_torch)}), "here")
