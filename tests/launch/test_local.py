from __future__ import annotations

import os

import pytest

from trainmark.launch.launcher import Launcher
from trainmark.launch.local import LocalLauncher
from trainmark.spec.site import Site
from trainmark.testing.launchers import LauncherContract


class TestLocal(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Launcher:
        return LocalLauncher()

    @pytest.fixture
    def site(self) -> Site:
        return Site(hosts=[os.uname().nodename])
