"""One suite file on this machine, over ssh, on a real Slurm and on an emulated ModelArts: reports of one shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import site
from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import PROGRAM
from tests.launch.modelarts.conftest import site_path
from trainmark.emulate.modelarts import site_file
from trainmark.emulate.modelarts.server import Emulator, Options

# Said of figures of an emulated service, and of no others.
_SAID_OF_ONE = "emulated"


@pytest.fixture
def emulated(tmp_path: Path) -> Iterator[Path]:
    with Emulator(tmp_path / "emulator", 0, Options(upload_seconds=0.3)) as emulator:
        site_file.write(emulator)
        yield site_path(emulator, nodes=1)


def shape(value: Any) -> Any:
    """Names and kinds of everything, without what they are."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items() if name != _SAID_OF_ONE}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "figure" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.lab
def test_reports_of_all_launchers_have_one_shape(
    cluster: Lab, slurm_cli: Cli, slurm_site: Callable[..., Path], shared: Path, emulated: Path,
    make_workload: Callable[..., Path], make_suite: Callable[..., Path],
) -> None:  # fmt: skip
    make_workload(PROGRAM)
    suite = make_suite("  - thing:none:cpu:1:2:1")
    ssh = shared / "ssh.yaml"
    ssh.write_text(json.dumps(site.content(cluster.layout)))
    where = {"local": [], "ssh": [str(ssh)], "slurm": [str(slurm_site())], "modelarts": [str(emulated)]}
    found, headings = {}, {}
    for launcher, file in where.items():
        slurm_cli("run", str(suite), *(["--site", *file] if file else []))
        run = slurm_cli.run_id()
        manifest = json.loads((slurm_cli.runs / run / "manifest.json").read_text())
        assert launcher in json.dumps(manifest["plan"]["site"]["launcher"])
        (case,) = slurm_cli.json("report", run)["cases"]
        assert case["state"] == "SUCCEEDED"
        found[launcher] = shape({"case": sorted(case), "run": case["runs"][0], "figures": case["measurements"]})
        text = slurm_cli("report", run, "--format", "md").stdout
        headings[launcher] = [line for line in text.splitlines() if line.startswith("#") and run not in line]
    assert found["ssh"] == found["local"]
    assert found["slurm"] == found["local"]
    assert found["modelarts"] == found["local"]
    assert len({tuple(lines) for lines in headings.values()}) == 1
