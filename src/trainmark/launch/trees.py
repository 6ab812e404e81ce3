"""The files of a workload as one archive named by its content, for hosts that do not see this machine's files."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.errors import SiteError
from trainmark.plan.records import CasePlan

if TYPE_CHECKING:
    import tarfile

# What belongs to a program is small; data is read in place on the hosts.
_MOST = 64 * 2**20
_LEFT_OUT = ("__pycache__", ".git")
_NAME = 32


class Tree(msgspec.Struct, frozen=True):
    """`places`: where each folder of this machine is found below the tree."""

    name: str
    content: bytes
    places: dict[str, str]


def pack(roots: tuple[str, ...]) -> Tree:
    """The same files give the same name, whatever their times and owners."""
    import tarfile  # runs of this machine send no files

    out = io.BytesIO()
    places: dict[str, str] = {}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number, root in enumerate(dict.fromkeys(roots)):
            places[root] = f"{number}-{Path(root).name}"
            for file in _files(Path(root)):
                _add(archive, file, f"{places[root]}/{file.relative_to(root)}")
                if out.tell() > _MOST:
                    raise SiteError(f"{root}: too large to be sent ({_MOST >> 20} MiB); data goes under `data:`")
    content = out.getvalue()
    return Tree(hashlib.sha256(content).hexdigest()[:_NAME], content, places)


def of_case(case: CasePlan, packed: dict[tuple[str, ...], Tree]) -> Tree | None:
    """The files of a case, None when it has none. Packed once: all rounds of a run train with the same files."""
    roots = tuple(root for root in (case.folder, *case.path) if root)
    if roots and roots not in packed:
        packed[roots] = pack(roots)
    return packed[roots] if roots else None


def _files(root: Path) -> list[Path]:
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        found += [Path(folder, name) for name in names if Path(folder, name).is_file()]
    return sorted(found)


def _add(archive: tarfile.TarFile, file: Path, name: str) -> None:
    import tarfile

    content = file.read_bytes()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o755 if os.access(file, os.X_OK) else 0o644
    archive.addfile(entry, io.BytesIO(content))


def unpack(tree: Tree, folder: Path) -> None:
    """The files below `folder`: whole or not at all, and left alone if they are there."""
    import tarfile

    if folder.is_dir():
        return
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(tree.content)) as archive:
        archive.extractall(part, filter="data")
    part.rename(folder)


def moved(text: str, places: dict[str, str], top: str) -> str:
    """A path below one of the folders as it is called on the host; any other text as it is."""
    for root, place in places.items():
        if text == root or text.startswith(root + "/"):
            return f"{top}/{place}{text[len(root) :]}"
    return text
