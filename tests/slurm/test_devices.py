"""Devices on a real Slurm, looked for before a job is asked for: with none, with a library of NVML's interface that has
too few, and with a request that hands too few out."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.lab import Lab, wait_for
from tests.conftest import Cli
from tests.devices.conftest import HERE
from tests.slurm.conftest import jobs

pytestmark = pytest.mark.lab
_TWO_RANKS = "noop:none:nvidia:2:2:1"


@pytest.fixture
def python_with_nvml(shared: Path) -> Path:
    """A Python for the nodes that finds the library, with as many devices as `devices` says."""
    library = shared / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "fake_nvml.c", "-lm"], check=True)
    script = shared / "python"
    script.write_text(
        f"#!/bin/sh\nexport LD_LIBRARY_PATH={shared}\n"
        f'export FAKE_NVML_DEVICES=$(cat {shared}/devices)\nexec python3 "$@"\n'
    )
    script.chmod(0o755)
    return script


def refused(cli: Cli, site: Path, cluster: Lab) -> str:
    """What is said. The step that looked may take a moment to leave the queue; no run was made."""
    said = " ".join(cli("run", _TWO_RANKS, "--site", str(site), code=3).stderr.split())
    wait_for(lambda: jobs(cluster) == [], "an empty queue")
    assert not list(cli.runs.glob("*/manifest.json"))
    return said


def test_none(cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path]) -> None:
    said = refused(slurm_cli, slurm_site(), cluster)
    assert "node1" in said and "node2" in said and "nvidia" in said


@pytest.mark.parametrize(
    ("devices", "asked", "word"), [(1, 2, "there are 1"), (4, 1, "allows only `0`")], ids=["few", "few-visible"]
)
def test_fewer_than_ranks(
    cluster: Lab,
    slurm_cli: Cli,
    slurm_site: Callable[..., Path],
    shared: Path,
    python_with_nvml: Path,
    devices: int,
    asked: int,
    word: str,
) -> None:
    (shared / "devices").write_text(str(devices))
    site = slurm_site({"gres": f"gpu:fake:{asked}"}, node_python=str(python_with_nvml))
    assert word in refused(slurm_cli, site, cluster)


def test_enough(slurm_cli: Cli, slurm_site: Callable[..., Path], shared: Path, python_with_nvml: Path) -> None:
    (shared / "devices").write_text("2")
    site = slurm_site({"gres": "gpu:fake:2"}, node_python=str(python_with_nvml))
    slurm_cli("run", _TWO_RANKS, "--site", str(site), "--set", "seconds=1", "--set", "steps=10")
    known: list[dict[str, Any]] = slurm_cli.json("doctor", "--site", str(site))
    assert not [one for one in known if one.get("good") is False]
