"""The pages on extending trainmark, followed to the letter: packages outside this repository pass their contracts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import make_package


def follow(page: str, folder: Path, *argv: str) -> str:
    """The page's package, as an installation would leave it, and a command that is run beside it."""
    make_package(page, folder)
    env = {**os.environ, "PYTHONPATH": str(folder), "TRAINMARK_RUNS": str(folder / "runs")}
    done = subprocess.run(
        [sys.executable, *argv], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("page", "test"),
    [
        ("adding-a-device.md", "test_acme.py"),
        ("adding-a-format.md", "test_paces.py"),
        ("adding-a-launcher.md", "test_command.py"),
    ],
)
def test_the_package_of_a_page_passes_its_contract(page: str, test: str, tmp_path: Path) -> None:
    said = follow(page, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
    assert "passed" in said and "failed" not in said


def test_a_case_on_the_new_device_can_be_planned(tmp_path: Path) -> None:
    said = follow("adding-a-device.md", tmp_path, "-m", "trainmark", "plan", "resnet50:pytorch:acme:1:1:1", "--json")
    (case,) = json.loads(said)["cases"]
    assert (case["env"], case["backend"], case["visible"]) == ({"ACME_LOG_LEVEL": "3"}, "accl", "ACME_VISIBLE_DEVICES")


def test_the_new_format_imports_its_sample(tmp_path: Path) -> None:
    said = follow("adding-a-format.md", tmp_path, "-m", "trainmark", "import", "paces", "sample.paces")
    assert "1 round(s) of 1 case(s)" in said and "lines 5 = 4 taken + 1 other + 0 flagged" in said


def test_the_new_launcher_is_found_by_the_name_in_a_site(tmp_path: Path) -> None:
    argv = ("run", "noop:none:cpu:1:1:1", "--preset", "smoke", "--site", "site.yaml")
    said = follow("adding-a-launcher.md", tmp_path, "-m", "trainmark", *argv)
    assert "1 succeeded" in said or "SUCCEEDED" in said
    (journal,) = (tmp_path / "runs").glob("*/journal.jsonl")
    assert '"handle":"command://here/' in journal.read_text()
