"""`trainmark exec` on unmodified programs of JAX (flax, optax) and Keras, each in an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.exec.conftest import SCRIPTS, Measured
from tests.frameworks.conftest import KEPT
from trainmark.i18n.speaker import say

pytestmark = pytest.mark.frameworks
# What programs of users need beside what trainmark's own environments have.
PACKAGES = {
    "jax": ("jax==0.10.2", "flax==0.12.8", "optax==0.2.8"),
    "keras": ("tensorflow-cpu==2.21.0", "keras==3.15.1"),
}


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A Python for each."""
    folder = Path(os.environ.get(KEPT) or tmp_path_factory.mktemp("exec"))
    found = {}
    for name, packages in PACKAGES.items():
        place = folder / f"exec-{name}"
        found[name] = str(place / "bin" / "python")
        if not place.exists():
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            subprocess.run([found[name], "-m", "pip", "install", "-q", *packages], check=True, timeout=900)
    return found


def run(cli: Cli, pythons: dict[str, str], framework: str, script: str, *options: str) -> Measured:
    for file in SCRIPTS.glob("*.py"):
        shutil.copy(file, cli.folder)
    done = cli("exec", "--json", *options, "--", pythons[framework], script)
    return Measured(json.loads(done.stdout))


def test_a_loop_of_flax_and_optax(cli: Cli, pythons: dict[str, str]) -> None:
    found = run(cli, pythons, "jax", "jax_loop.py")
    # Four epochs of 92 samples by 8, and a compiled evaluation after each; the last one ends with the program.
    assert found.counts(0) == (48, 368)
    assert found.phases(0) >= 3
    assert len(found.losses(0)) == 48


def test_updates_in_a_loop_of_jax_give_no_speed(cli: Cli, pythons: dict[str, str]) -> None:
    found = run(cli, pythons, "jax", "jax_scan.py")
    assert found.value("throughput") is None
    assert "whose size could not be told" in say(found.case["measurements"]["throughput"]["reason"])


def test_fit_of_keras(cli: Cli, pythons: dict[str, str]) -> None:
    found = run(cli, pythons, "keras", "keras_fit.py")
    # Three epochs of 90 samples by 16.
    assert found.counts(0) == (18, 270)
    assert [event["n"] for event in found.steps(0)] == [16, 16, 16, 16, 16, 10] * 3
    assert found.phases(0) == 3
