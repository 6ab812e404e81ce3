from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.launch import node_zip


def old_pythons() -> list[str]:
    """Interpreters of earlier versions that this machine happens to have."""
    roots = [Path("/usr/bin"), Path("/usr/local/bin"), *Path.home().glob(".pyenv/versions/*/bin")]
    found = [path for root in roots for path in root.glob("python3.[0-9]*") if path.name[8:].isdigit()]
    return sorted({str(path.resolve()) for path in found if int(path.name[8:]) >= 7})


def test_the_same_sources_make_the_same_bytes(tmp_path: Path) -> None:
    assert node_zip.build() == node_zip.build()
    file = node_zip.write(tmp_path)
    assert node_zip.write(tmp_path) == file and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("python", old_pythons() or [sys.executable])
def test_it_runs_alone_on_other_pythons(tmp_path: Path, python: str) -> None:
    file = node_zip.write(tmp_path)
    done = subprocess.run([python, "-I", "-S", str(file), "selftest"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
