#!/usr/bin/env python3
"""Fetches the scripts of others that the server's pages use, by version and hash, into the package.

They are part of the repository, so neither an installation nor a browser needs a network for them. `--check` only
compares what is there with the hashes. A new version: change it here, run, and put in the hash that it prints.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

_TOP = Path(__file__).resolve().parent.parent
_PAGES = _TOP / "src" / "trainmark" / "web" / "pages" / "static" / "vendor"
_TESTS = _TOP / "tests" / "web" / "vendor"


class Package(NamedTuple):
    """`integrity`: of the package as npm has it; `files`: path in it → name here."""

    name: str
    version: str
    licence: str
    integrity: str
    folder: Path
    files: dict[str, str]


PACKAGES = [
    Package(
        "uplot",
        "1.6.32",
        "MIT",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        _PAGES,
        {"dist/uPlot.iife.min.js": "uplot.js", "dist/uPlot.min.css": "uplot.css", "LICENSE": "uplot.LICENSE"},
    ),
    Package(
        "js-yaml",
        "4.1.0",
        "MIT",
        "sha512-wpxZs9NoxZaJESJGIZTyDEaYpl0FKSA+FB9aJiyemKhMwkxQg63h4T1KJgUGHpTqPDNRcmmYLugrRjJlBtWvRA==",
        _PAGES,
        {"dist/js-yaml.min.js": "js-yaml.js", "LICENSE": "js-yaml.LICENSE"},
    ),
    # Only for tests: it looks for what keeps people out.
    Package(
        "axe-core",
        "4.14.0",
        "MPL-2.0",
        "sha512-9WTZxEjsZ7b13TH8JPmbV2z8CHbl80/2hm3XPEG4JgNdQLK81IBRXmSxHfMAOkSqQeRxT/0dwNDz2GOm3zzpcQ==",
        _TESTS,
        {"axe.min.js": "axe.js", "LICENSE": "axe.LICENSE"},
    ),
]


def fetch(package: Package) -> bytes:
    """The package as npm has it; the hash decides whether it is the right one."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        data = next(Path(folder).glob("*.tgz")).read_bytes()
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != package.integrity:
        sys.exit(f"{package.name} {package.version}: found {found}, expected {package.integrity}")
    return data


def unpack(package: Package, data: bytes) -> dict[str, str]:
    """Writes its files; returns the hash of each."""
    hashes = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for path, name in package.files.items():
            member = archive.extractfile(f"package/{path}")
            if member is None:
                sys.exit(f"{package.name}: has no file {path}")
            content = member.read()
            (package.folder / name).write_bytes(content)
            hashes[name] = hashlib.sha256(content).hexdigest()
    return hashes


def main() -> None:
    if "--check" in sys.argv[1:]:
        check()
        return
    for folder in (_PAGES, _TESTS):
        folder.mkdir(parents=True, exist_ok=True)
        listed = {
            one.name: {"version": one.version, "licence": one.licence, "sha256": unpack(one, fetch(one))}
            for one in PACKAGES
            if one.folder == folder
        }
        (folder / "vendor.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")


def check() -> None:
    """Whether every file is the one that was fetched."""
    for folder in (_PAGES, _TESTS):
        for package, about in json.loads((folder / "vendor.json").read_text(encoding="utf-8")).items():
            for name, expected in about["sha256"].items():
                if hashlib.sha256((folder / name).read_bytes()).hexdigest() != expected:
                    sys.exit(f"{folder / name}: is not the file of {package} {about['version']}")


if __name__ == "__main__":
    main()
