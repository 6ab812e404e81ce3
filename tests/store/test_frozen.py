"""Runs of earlier schemas stay readable and give the same figures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from trainmark.report import build
from trainmark.report.make import index_row
from trainmark.store.rundir import RunDir

FROZEN = Path(__file__).with_name("frozen")


@pytest.mark.parametrize("schema", ["schema1"])
def test_an_old_run_is_scored_as_it_was(tmp_path: Path, schema: str) -> None:
    run = tmp_path / "20260101-000000-noop-0000"
    shutil.copytree(FROZEN / schema, run)
    report = build.build(RunDir(run))
    (case,) = report.cases
    assert (report.state, case.state, case.counted, report.warnings) == ("SUCCEEDED", "SUCCEEDED", 2, [])
    throughput = case.measurements["throughput"]
    # 2 ranks of 4 samples in each of 5 steps a second.
    assert throughput.value == pytest.approx(40.0, rel=1e-3) and throughput.n == 2
    assert case.measurements["steps"].value == 120
    assert index_row.summarise(run).succeeded == 1
