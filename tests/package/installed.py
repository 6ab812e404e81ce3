"""The package, built from this repository, and Pythons to install it into."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
BIN = Path(sys.executable).parent
# What an environment of somebody else would not have.
_OURS = ("PYTHONPATH", "VIRTUAL_ENV", "TRAINMARK_RUNS", "TRAINMARK_CACHE")


def clean_env(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _OURS}
    return {**env, "TRAINMARK_CACHE": str(home / "cache"), "COLUMNS": "80"}


def call(*argv: str | Path, cwd: Path, code: int = 0, timeout: float = 240.0) -> str:
    """What the command says; it must end with `code`, and never in a traceback."""
    words = [str(word) for word in argv]
    done = subprocess.run(
        words, cwd=cwd, env=clean_env(cwd), capture_output=True, text=True, timeout=timeout, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == code and "Traceback" not in said, f"{' '.join(words)}: {done.returncode}\n{said}"
    return said


def build(out: Path) -> tuple[Path, Path]:
    """sdist and wheel; the wheel is built from the sdist, as installers do."""
    call(sys.executable, "-m", "build", "--installer", "uv", "--outdir", out, ROOT, cwd=out.parent)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


@functools.cache
def pythons() -> dict[str, str]:
    """Every Python of `VERSIONS` that this machine has, by version."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    homes = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin"))
    for version in VERSIONS:
        name = f"python{version}"
        for program in [shutil.which(name), *(str(home / name) for home in homes)]:
            if version not in found and program and _works(program):
                found[version] = program
    return found


def _works(program: str) -> bool:
    """A shim of a version manager may be there for a Python that is not."""
    try:
        return subprocess.run([program, "-c", "import venv"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def make(home: Path, python: str, *requirements: str | Path, plain_pip: bool = False) -> Path:
    """An environment with nothing but the requirements in it; its folder of programs."""
    if plain_pip:
        call(python, "-m", "venv", home, cwd=home.parent)
        pip: list[str | Path] = [home / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    else:
        call(BIN / "uv", "venv", "-q", "--python", python, home, cwd=home.parent)
        pip = [BIN / "uv", "pip", "install", "-q", "--python", home / "bin" / "python"]
    call(*pip, "-c", ROOT / "constraints.txt", *requirements, cwd=home.parent)
    return home / "bin"
