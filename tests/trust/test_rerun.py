"""`trainmark verify --rerun`: the cases of a bundle run here, against its figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.trust.honest import packed
from trainmark import api
from trainmark.cli.main import main
from trainmark.store.rundir import RunDir

pytestmark = pytest.mark.slow

CASE = "noop:none:cpu:1:1:2@preset=smoke,seconds=1.0,steps=120"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A real run of a second a round."""
    other = CASE.replace("steps=120", "steps=60")
    return api.run({"name": "two", "cases": [CASE, other]}, runs=tmp_path_factory.mktemp("runs")).folder


def test_a_case_of_a_bundle_is_run_here_and_compared(
    ran: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = packed(ran, tmp_path / "x.tmk", sealed=False)
    mine = tmp_path / "mine"
    assert main(["verify", str(file), "--rerun", "--case", CASE, "--runs", str(mine), "--json"]) in (0, 4)
    found = json.loads(capsys.readouterr().out)
    assert found["verification"]["verified"] is True
    (comparison,) = found["comparisons"]
    assert ran.id in json.dumps(comparison)
    (case,) = comparison["cases"]
    assert case["verdict"]["word"] in ("equivalent", "inconclusive", "slower", "faster")
    (run,) = (one for one in mine.iterdir() if not one.name.startswith("."))
    assert [case.case for case in RunDir(run).manifest().plan.cases] == [CASE]


def test_what_cannot_be_run_again_is_said(ran: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(packed(ran, tmp_path / "x.tmk", sealed=False))
    assert main(["verify", file, "--rerun", "--case", "mnist:pytorch:cpu:1:1:3"]) == 2
    assert "not in this bundle" in capsys.readouterr().err
    assert main(["verify", file, "--case", CASE]) == 2
    assert "add --rerun" in capsys.readouterr().err
    assert main(["verify", file, file, "--rerun"]) == 2


def test_a_bundle_with_faults_is_not_run_again(ran: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pack", str(ran.path), "-o", str(tmp_path / "u.tmk"), "--unsigned"]) == 0
    assert main(["verify", str(tmp_path / "u.tmk"), "--rerun", "--runs", str(tmp_path / "mine")]) == 4
    assert "was not run again" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()
