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


@pytest.mark.parametrize("python", old_pythons() or [sys.executable])
def test_the_hooks_for_unmodified_programs_load_from_it(tmp_path: Path, python: str) -> None:
    """A package called torch is imported from a file, and the hooks are called with it."""
    file = node_zip.write(tmp_path)
    (tmp_path / "torch.py").write_text("__version__ = 'none'\n")
    (tmp_path / "config.json").write_text('{"exec": {"batch": 3}}')
    (tmp_path / "sitecustomize.py").write_text("print('the next one')\n")
    env = {
        "PYTHONPATH": f"{file}/trainmark/probe/site:{tmp_path}",
        "TRAINMARK_SPOOLS": str(tmp_path),
        "TRAINMARK_CONFIG": str(tmp_path / "config.json"),
    }
    done = subprocess.run([python, "-c", "import torch"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "the next one\n"), done.stderr
    words = [line.split(" ", 2) for line in (tmp_path / "hello").read_text().splitlines()]
    assert [word[0] for word in words] == ["python", "torch", "broken"] and words[1][2] == "none"
    # This torch has no optimizers to watch; the program does not suffer from it.
    assert "training is not measured: KeyError" in done.stderr
