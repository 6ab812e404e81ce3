#!/usr/bin/env python3
"""Renews the locks: every package of an environment by its exact version and the hashes of its files. Those of the
project lie in `locks/`; those that `trainmark env create` installs from are part of the package.

torch is left out: machines bring builds of their own (CPU, CUDA, a vendor's), whose hashes differ from the index's; it
is pinned by `constraints.txt`. What only some builds of torch need is left out with it. Needs `uv`; names no index, so
that the caller's own configuration applies. `--check` fails when a lock lacks a package that the project asks for.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import yaml

TOP = Path(__file__).resolve().parent.parent
LOCKS = TOP / "locks"
ENVIRONMENTS = TOP / "src/trainmark/frameworks/environments.yaml"
FRAMEWORKS = ENVIRONMENTS.parent / "locks"
# Extras of the project → the lock for them.
GROUPS = {"bench": ["torch"], "automl": ["torch", "automl"], "dev": ["dev"], "docs": ["docs"], "package": ["package"]}
LEFT_OUT = ("torch", "triton", "nvidia-", "cuda-", "pytorch-triton")
PYTHON = "3.11"


def compiled(requirements: str, options: list[str]) -> str:
    """What uv makes of the requirements, without torch and its own."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
        file.write(requirements)
        file.flush()
        argv = ["uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
        argv += ["--python-version", PYTHON, "--python-platform", "linux", *options, file.name]
        done = subprocess.run(argv, capture_output=True, text=True, cwd=TOP, check=False)
    if done.returncode:
        sys.exit(f"uv could not settle the versions:\n{done.stderr}")
    return kept(done.stdout)


def kept(text: str) -> str:
    """Entries whose package is not left out; options that name places are dropped."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    named = [entry for entry in entries if re.match(r"[A-Za-z0-9]", entry)]
    return "".join(entry for entry in named if not entry.lower().startswith(LEFT_OUT))


def locks() -> dict[Path, tuple[str, list[str]]]:
    """File of a lock → its requirements, and what else uv is told."""
    extra = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    found: dict[Path, tuple[str, list[str]]] = {}
    torch = ["-c", str(TOP / "constraints.txt")]
    for name, groups in GROUPS.items():
        wanted = [*extra["dependencies"], *(one for group in groups for one in _flat(extra, group))]
        found[LOCKS / f"{name}.txt"] = ("\n".join(wanted) + "\n", torch)
    for name, about in yaml.safe_load(ENVIRONMENTS.read_text())["environments"].items():
        found[FRAMEWORKS / f"{name}.txt"] = ("\n".join(about["packages"]) + "\n", ["--no-deps"])
    return found


def _flat(project: dict[str, object], group: str) -> list[str]:
    """The requirements of an extra; `trainmark[a,b]` in it is spelled out."""
    extras: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    found = []
    for one in extras[group]:
        own = re.fullmatch(r"trainmark\[([\w,-]+)\]", one)
        found += [inner for name in own[1].split(",") for inner in _flat(project, name)] if own else [one]
    return found


def missing(file: Path, requirements: str) -> list[str]:
    """Packages that are asked for and not locked."""
    text = file.read_text() if file.exists() else ""
    locked = {_normal(line.partition("==")[0]) for line in text.splitlines() if "==" in line}
    asked = [re.match(r"[\w.-]+", line) for line in requirements.splitlines()]
    names = [_normal(one[0]) for one in asked if one]
    return [one for one in names if one not in locked and not one.startswith(LEFT_OUT)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only look whether the locks are complete")
    parser.add_argument("--find-links", metavar="FOLDER", help="wheels of this machine, for versions the index lacks")
    args = parser.parse_args()
    lacking = {}
    for file, (requirements, options) in locks().items():
        place = str(file.relative_to(TOP))
        if args.check:
            lacking[place] = missing(file, requirements)
            continue
        local = ["--find-links", args.find_links] if args.find_links else []
        text = compiled(requirements, [*options, *local])
        file.parent.mkdir(exist_ok=True)
        file.write_text("# Made by tools/lock.py; torch is pinned in constraints.txt.\n" + text)
        sys.stdout.write(f"{place}: {text.count('==')} packages\n")
    if any(lacking.values()):
        sys.exit("; ".join(f"{place} lacks {', '.join(found)}" for place, found in lacking.items() if found))


if __name__ == "__main__":
    main()
