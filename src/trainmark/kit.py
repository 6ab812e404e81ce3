"""A kit: trainmark, a suite and a site in one archive that a tester unpacks and runs with one command.

The same input gives the same bytes. Whoever unpacks it needs Python 3.11; packages come from the archive (`wheels`), or
from the package index. Called by the command line alone.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

import trainmark
from trainmark.agent.secrets import cleaned
from trainmark.errors import SiteError, UserError
from trainmark.launch.sites import load_site
from trainmark.spec import suite as suites
from trainmark.store.files import write_named

TOP = "trainmark-kit"
_PACKAGE = Path(trainmark.__file__).resolve().parent
# What packages for Linux are marked with, newest first.
_PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
_EXTRA = re.compile(r"\s*;\s*extra\s*==\s*['\"]([\w-]+)['\"]\s*$")
_START = """\
#!/bin/sh
# ./trainmark-kit run: this kit's suite on its site. ./trainmark-kit VERB ...: any other verb of trainmark.
# python -P: no module comes from the folder that this is called in, which may be anybody's.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)

install() {
    "$here/env/bin/python" -P -m pip install -q --disable-pip-version-check "$@" -r "$here/requirements.txt" \\
        > "$here/log/install.log" 2>&1 || { cat "$here/log/install.log" >&2; exit 3; }
}

if [ ! -f "$here/env/ready" ]; then
    case "${1:---help}" in -h | --help | help) cat "$here/README.md"; exit 0 ;; esac
    python=
    for name in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
        if [ -n "$name" ] && "$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
            python=$name
            break
        fi
    done
    [ -n "$python" ] || { echo "trainmark-kit: needs Python 3.11 or newer; name it in PYTHON" >&2; exit 3; }
    echo "trainmark-kit: making an environment in env/, once; what pip says is in log/install.log" >&2
    "$python" -P -m venv "$here/env"
    if [ -d "$here/wheels" ]; then install --no-index --find-links "$here/wheels"; else install; fi
    "$here/env/bin/python" -P - "$here/lib" <<'END'
import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "trainmark-kit.pth").write_text(sys.argv[1] + "\\n")
END
    touch "$here/env/ready"
fi
TRAINMARK_RUNS="$here/result"
export TRAINMARK_RUNS
if [ "$*" = run ]; then
    set -- run "$here/suite.yaml"
    if [ -f "$here/site.yaml" ]; then set -- "$@" --site "$here/site.yaml"; fi
fi
exec "$here/env/bin/python" -P -m trainmark "$@"
"""
_README = """\
# trainmark kit

    ./trainmark-kit run                 run the suite of this kit
    ./trainmark-kit report              print its result again
    ./trainmark-kit VERB --help         any verb of trainmark

Needs Python 3.11 or newer (PYTHON names another one). The first start makes the folder env/; results are in result/,
what the installation said is in log/.
"""


class Made(msgspec.Struct, frozen=True):
    files: int
    size: int
    sha256: str


def make(path: Path, suite: str, site: Path | None, arch: str, extras: Sequence[str] | None, *, wheels: bool) -> Made:
    """Writes the archive; UserError for a suite or site that cannot be used, before anything is made."""
    loaded = suites.load(suites.find(suite))
    text = loaded.file.read_text(encoding="utf-8")
    _check_no_secret(loaded.file, text)
    if site is not None:
        load_site(site, "kit")
        _check_no_secret(site, site.read_text(encoding="utf-8"))
    wanted = list(extras) if extras is not None else (["torch"] if ":pytorch" in text else [])
    requirements = needed(wanted)
    files: dict[str, bytes] = {
        TOP: _START.encode(),
        "README.md": _README.encode(),
        "requirements.txt": ("\n".join(requirements) + "\n").encode(),
        **_workloads(loaded, text),
    }
    if site is not None:
        files["site.yaml"] = site.read_bytes()
    for file in sorted(_PACKAGE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            files[f"lib/trainmark/{file.relative_to(_PACKAGE)}"] = file.read_bytes()
    if wheels:
        files.update(_download(requirements, arch))
    data = _packed(files)
    write_named(path, data)
    return Made(len(files), len(data), hashlib.sha256(data).hexdigest())


def _check_no_secret(file: Path, text: str) -> None:
    """A kit is handed on; what a run only masks in its results would be in the hands of others."""
    for number, (line, kept) in enumerate(zip(text.splitlines(), cleaned(text).splitlines(), strict=False), 1):
        if line != kept:
            raise UserError(
                f"{file}:{number}: looks like a secret, and a kit is for others; "
                "take it out, or name a file that holds it"
            )


def needed(extras: Sequence[str]) -> list[str]:
    """What trainmark itself asks for, and its extras."""
    found: dict[str, list[str]] = {"": []}
    for line in importlib.metadata.requires("trainmark") or ():
        extra = _EXTRA.search(line)
        found.setdefault(extra[1] if extra else "", []).append(_EXTRA.sub("", line))
    unknown = [name for name in extras if name not in found]
    if unknown:
        known = ", ".join(sorted(name for name in found if name))
        raise UserError(f"--extra {unknown[0]}: no such extra; there are {known}")
    return sorted({line for name in ("", *extras) for line in found[name]})


def _workloads(loaded: suites.Loaded, text: str) -> dict[str, bytes]:
    """The suite, with the folders of workloads of its own beside it."""
    files: dict[str, bytes] = {}
    names = []
    for number, folder in enumerate(loaded.folders):
        names.append(f"workloads/{number}-{folder.name}")
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                files[f"{names[-1]}/{file.relative_to(folder)}"] = file.read_bytes()
    if names:
        text = yaml.safe_dump({**yaml.safe_load(text), "workloads": names}, sort_keys=False, allow_unicode=True)
    return {**files, "suite.yaml": text.encode()}


def _download(requirements: Sequence[str], arch: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-P", "-m", "pip", "download", "-q", "--disable-pip-version-check", "-d", folder]
        argv += ["--only-binary=:all:", "--python-version=3.11", "--implementation=cp"]
        argv += [f"--platform={one}_{arch}" for one in _PLATFORMS]
        done = subprocess.run([*argv, *requirements], capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise SiteError(f"--wheels: pip could not get the packages for {arch}: {last}")
        return {f"wheels/{file.name}": file.read_bytes() for file in sorted(Path(folder).iterdir())}


def _packed(files: dict[str, bytes]) -> bytes:
    """No times, no owners, one order."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in (f"{TOP}/", f"{TOP}/log/", f"{TOP}/result/"):
            entry = tarfile.TarInfo(name.rstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{TOP}/{name}")
            entry.size, entry.mode = len(content), 0o755 if name == TOP else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()
