"""The project's Containerfile, built by a real engine on a base image that is made here, with no network."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.engines import IMAGE, MOUNTS
from lab.lab import Lab

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parents[2]
NAME = "trainmark-lab/containerfile:1"


@pytest.fixture
def context(lab: Lab) -> Iterator[Path]:
    """What the build needs of the repository, and all packages it installs, where the hosts see them."""
    folder = lab.layout.shared / "containerfile"
    for name in ("src", "pyproject.toml", "README.md", "LICENSE", "constraints.txt", "Containerfile"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        folder.mkdir(exist_ok=True)
        copy(ROOT / name, folder / name)  # type: ignore[operator]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "-d", str(folder / "wheels")]
    subprocess.run([*pip, *wanted], check=True)
    yield folder
    shutil.rmtree(folder)


def test_the_image_runs_trainmark_on_top_of_any_base(lab: Lab, context: Path) -> None:
    """As for a base image with an accelerator's PyTorch: nothing is installed but trainmark itself."""
    mounts = [f"--volume={folder}:{folder}:ro" for folder in MOUNTS]
    arguments = [f"--build-arg=BASE={IMAGE}", "--build-arg=EXTRAS=", "--build-arg=PYTHON=/usr/bin/python3"]
    offline = ["--env=PIP_NO_INDEX=1", "--env=PIP_FIND_LINKS=/wheels"]
    lab.on(
        "node1", "podman", "build", "--pull-never", "--network=none", *mounts, f"--volume={context}/wheels:/wheels:ro",
        *arguments, *offline, "-t", NAME, "-f", str(context / "Containerfile"), str(context),
    )  # fmt: skip
    argv = ("podman", "run", "--rm", "--pull=never", "--network=none", *mounts, NAME)
    assert "usage: trainmark" in lab.on("node1", *argv).stdout
    said = lab.on("node1", *argv, "run", "noop").stdout
    assert "SUCCEEDED" in said and "kept in /runs/" in said
    lab.on("node1", "podman", "rmi", NAME)
