"""The agent under every Python of this machine that a node may have."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .harness import Node
from .test_round import GOOD


def found() -> list[str]:
    """Interpreters of 3.7 and later, one per minor version."""
    places = [*Path.home().glob(".pyenv/versions/3.*/bin/python"), *Path("/opt").glob("python*/bin/python3")]
    places += [Path(path) for minor in range(7, 20) if (path := shutil.which(f"python3.{minor}"))]
    versions: dict[int, str] = {}
    for place in places:
        said = subprocess.run([str(place), "-I", "-S", "-V"], capture_output=True, text=True, check=False).stdout
        match = re.match(r"Python 3\.(\d+)", said)
        if match and int(match[1]) >= 7:
            versions.setdefault(int(match[1]), str(place))
    return [versions[minor] for minor in sorted(versions)]


PYTHONS = found()


def test_there_is_an_old_python() -> None:
    if not any("3.7" in python or "3.8" in python for python in PYTHONS):
        pytest.skip("no Python 3.7 or 3.8 on this machine: the agent was not tried on an old one")


@pytest.mark.parametrize("python", PYTHONS)
def test_a_round_everywhere(tmp_path: Path, python: str) -> None:
    node = Node(tmp_path, python)
    argv = node.script(GOOD)
    result = node.ranks(argv, argv).run(ports=[0])
    assert (result["state"], result["events"]) == ("SUCCEEDED", 26)


@pytest.mark.parametrize("python", sorted({PYTHONS[0], PYTHONS[-1]}) if PYTHONS else [])
def test_every_containment_on_the_oldest_and_the_newest(tmp_path: Path, python: str, containment: str) -> None:
    node = Node(tmp_path, python)
    assert node.ranks(node.script(GOOD)).run(containment=containment)["containment"]["used"] == containment
