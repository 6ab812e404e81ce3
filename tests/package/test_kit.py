"""A kit runs where there is nothing but Python: no network, no package, and spaces in the name of the folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Cli


@pytest.mark.package
def test_a_kit_runs_where_there_is_only_python(cli: Cli, tmp_path: Path) -> None:
    cli("kit", "-o", "kit.tar.gz", "--suite", "noop", "--wheels")
    place = tmp_path / "a folder with spaces"
    with tarfile.open(tmp_path / "kit.tar.gz") as archive:
        archive.extractall(place, filter="data")
    base = Path(sys._base_executable)  # type: ignore[attr-defined]
    # No index can be reached, and nothing of this environment is seen.
    bare = {"PATH": f"/usr/bin:/bin:{base.parent}", "HOME": str(tmp_path), "PIP_NO_INDEX": "1", "PYTHON": str(base)}
    # Modules of the folder that it is called in are nobody's business.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for module in ("pip", "msgspec", "venv", "trainmark"):
        (elsewhere / f"{module}.py").write_text("raise SystemExit('taken over')")
    done = subprocess.run(
        [str(place / "trainmark-kit" / "trainmark-kit"), "run"],
        cwd=elsewhere, env=bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path for path in (place / "trainmark-kit" / "result").iterdir() if (path / "manifest.json").exists()]
    again = subprocess.run(
        ["./trainmark-kit", "report"],
        cwd=place / "trainmark-kit",
        env=bare,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0 and "noop" in again.stdout
    assert os.listdir(place / "trainmark-kit" / "log") == ["install.log"]
