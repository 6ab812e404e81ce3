"""A whole study over real hosts: one process, one node, two nodes; its table, its page, and what it foretells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.lab import Lab
from tests.conftest import Cli
from tests.lab.conftest import soon_clean

SUITE = """
schema: 1
name: study
preset: smoke
window: {{skip: 4, steps: 8}}
set: {{steps: 12}}
scaling: {{grid: [1x1, 1x2, 2x2]}}
cases:
  - {{case: "mnist:pytorch:cpu:1:1:2", data: {digits}}}
  - {{case: "resnet50:pytorch:cpu:1:1:2"}}
"""


@pytest.mark.lab
def test_from_one_process_to_two_nodes(
    cli: Cli, hosts: Lab, digits: Path, site_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(SUITE.format(digits=digits))
    site = site_file(env={"OMP_WAIT_POLICY": "passive"})
    cli("run", str(file), "--site", str(site))
    report = json.loads(cli("report", "--format", "json").stdout)
    assert [study["name"].split()[0] for study in report["studies"]] == ["mnist", "resnet50"]
    for study in report["studies"]:
        assert [(cell["nodes"], cell["procs"]) for cell in study["cells"]] == [(1, 1), (1, 2), (2, 2)]
        assert all(cell["median"] and cell["speedup"] and cell["ci_low"] for cell in study["cells"]), study
        assert study["cells"][0]["speedup"] == 1.0 and study["cells"][2]["speedup_low"] is not None
    used = {host for case in report["cases"] for run in case["runs"] for host in run["hosts"]}
    assert len(used) == 2
    table = cli("report", "--format", "md").stdout
    assert "| node_num | gpu_num | samples/s | speedup |" in table and "| 2        | 4       |" in table
    page = Path(cli("report", "--format", "html").stdout.strip())
    assert page.read_text().count("<svg") >= 2
    series = cli.json("predict", "--nodes", "8")["series"]
    assert len(series) == 2 and all(one["predictions"][0]["procs"] == 2 for one in series)
    soon_clean(hosts)
