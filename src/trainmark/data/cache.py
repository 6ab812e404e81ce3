"""Where data sets lie on this machine. A set appears in the cache by one rename, complete and checked."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from trainmark import cache
from trainmark.data.fetch import Progress, fetch
from trainmark.data.records import DataSet, named
from trainmark.errors import UserError
from trainmark.spec.inputs import expanded, is_folder


def locate(name_or_path: str, cache_dir: Path | None = None) -> Path | None:
    """The folder of a data set, or of the user's own data; None if it is not on this machine."""
    path = expanded(name_or_path, "data")
    if _is_path(name_or_path):
        return path.resolve() if is_folder(path) else None
    data_set = named(name_or_path)
    for folder in (home(data_set, cache_dir), data_set.installed):
        if folder is not None and _whole(data_set, folder):
            return folder
    return None


def get(name: str, cache_dir: Path | None = None, progress: Progress | None = None) -> Path:
    """The folder of the data set, fetched if it is not there yet. `progress` hears what takes time."""
    data_set = named(name)
    found = locate(name, cache_dir)
    if found is not None:
        return found
    place = home(data_set, cache_dir)
    with _workshop(place) as workshop:
        unpacked = fetch(data_set, workshop, progress or _quiet)
        ready = workshop / "ready"
        ready.mkdir()
        for file in data_set.files:
            _check(data_set, unpacked / file.name, file.sha256)
            (unpacked / file.name).replace(ready / file.name)
        _put(data_set, ready, place)
    return place


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~")) or is_folder(Path(text))


def _quiet(_: str) -> None:
    """For callers who do not listen."""


def home(data_set: DataSet, cache_dir: Path | None = None) -> Path:
    """Where the set lies, or would lie, in the cache."""
    return ((cache_dir / "data" if cache_dir else cache.cache_dir("data")) / data_set.name).absolute()


def _whole(data_set: DataSet, folder: Path) -> bool:
    """Every file is there with its size; the contents were checked when they came."""
    try:
        return all((folder / file.name).stat().st_size == file.size for file in data_set.files)
    except OSError:
        return False


@contextlib.contextmanager
def _workshop(home: Path) -> Iterator[Path]:
    """A folder beside `home`, gone afterwards whatever happens. What a killed process left is cleared first."""
    # The cache may be shared between hosts, and only this host's processes can be looked up.
    mine = f".half-{os.uname().nodename}-"
    try:
        cache.make(home.parent)
        for left in home.parent.glob(f"{mine}*"):
            if not _lives(left.name.removeprefix(mine).partition("-")[0]):
                shutil.rmtree(left, ignore_errors=True)
        workshop = Path(tempfile.mkdtemp(prefix=f"{mine}{os.getpid()}-", dir=home.parent))
    except OSError as error:
        raise UserError(f"the cache {home.parent} cannot be written: {error.strerror}; set TRAINMARK_CACHE") from None
    try:
        yield workshop
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def _check(data_set: DataSet, path: Path, sha256: str) -> None:
    package = data_set.package
    if not path.is_file():
        raise UserError(f"data set `{data_set.name}`: package {package.name} holds no {package.folder}/{path.name}")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise UserError(
            f"data set `{data_set.name}`: {path.name} from package {package.name} is not the known file "
            f"(sha256 {found[:16]}…, known is {sha256[:16]}…); nothing was kept"
        )


def _put(data_set: DataSet, ready: Path, home: Path) -> None:
    """Move the finished folder to its place; another process that was faster did the same work."""
    if home.exists() and not _whole(data_set, home):
        home.rename(ready.parent / "broken")
    try:
        ready.rename(home)
    except OSError:
        if not _whole(data_set, home):
            raise
