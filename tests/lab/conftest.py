"""One lab for all tests of a session; made with real parts, or skipped with a loud reason."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conftest import Cli
from trainmark.errors import UserError
from trainmark.testing.lab import packages, site
from trainmark.testing.lab.lab import Lab
from trainmark.testing.lab.layout import Options


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Two hosts with docker and podman."""
    yield from make_lab(Options(name=f"test{os.getpid()}", nodes=2, docker=True))


def make_lab(options: Options) -> Iterator[Lab]:
    """A lab for a session. TRAINMARK_LAB names one that is up already, and stays up."""
    why = packages.hindrance()
    if why:
        _skip(f"the lab {why}")
    name = os.environ.get("TRAINMARK_LAB")
    try:
        made = Lab.make(msgspec.structs.replace(options, name=name) if name else options, install=True)
    except UserError as error:
        _skip(f"no lab of real hosts: {error}")
    yield made
    if not name:
        made.down()


def _skip(reason: str) -> None:
    warnings.warn(f"LAB TESTS ARE SKIPPED: {reason}", stacklevel=2)
    pytest.skip(reason)


@pytest.fixture
def hosts(lab: Lab) -> Iterator[Lab]:
    """The lab, whole again after whatever the test did to it, and with nothing of the test left on it."""
    yield lab
    for host in lab.nodes:
        if lab.alive(host):
            lab.plug(host)
        else:
            lab.boot(host)


@pytest.fixture
def site_file(hosts: Lab, tmp_path: Path) -> Callable[..., Path]:
    """Writes a site for the lab's hosts, with whatever a test wants to be different."""

    def write(name: str = "site", **more: Any) -> Path:
        file = tmp_path / f"{name}.yaml"
        file.write_text(json.dumps(site.content(hosts.layout, **more)))
        return file

    return write


@pytest.fixture
def lab_cli(hosts: Lab, cli: Cli) -> Cli:
    return cli
