"""The code of a job: a folder in the object store that is named by its content.

What lies there already stays, what lies beside it under another name is copied within the store, only the rest goes up;
what does not belong there is removed. So two runs never change each other's code, and large packages go up once.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import msgspec

from trainmark.errors import SiteError
from trainmark.launch import node_zip
from trainmark.launch.modelarts.object_store import ObjectStore
from trainmark.launch.modelarts.options import PrepareWorker, names_of
from trainmark.launch.trees import Tree

BOOT, NODE, TREES = "boot.py", "trainmark-node.pyz", "trees"
# Becomes the node side; the arguments are the parameters of the job.
_BOOT = f"""\
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
zip_file = os.path.join(here, {NODE!r})
os.execv(sys.executable, [sys.executable, "-I", "-S", zip_file, "modelarts", here, *sys.argv[1:]])
"""
_CHUNK = 1 << 20


class Source(msgspec.Struct, frozen=True):
    """One file of it: content that is at hand, or a file of this machine."""

    size: int
    sha256: str
    md5: str
    content: bytes = b""
    path: str | None = None


class CodeFolder(msgspec.Struct, frozen=True):
    name: str
    files: dict[str, Source]


class Sent(msgspec.Struct, frozen=True):
    """What an upload did, in files."""

    put: int
    copied: int
    kept: int
    removed: int


def folder_of(tree: Tree | None, prepare: PrepareWorker) -> CodeFolder:
    files = {BOOT: _of_bytes(_BOOT.encode()), NODE: _of_bytes(node_zip.build())}
    if tree is not None:
        with tarfile.open(fileobj=io.BytesIO(tree.content)) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    files[f"{TREES}/{tree.name}/{member.name}"] = _of_bytes(content.read())
    if prepare.script:
        files["ma-pre-start.sh"] = _of_file(Path(prepare.script))
    if prepare.requirements:
        files["pip-requirements.txt"] = _of_file(Path(prepare.requirements))
    for name in prepare.files:
        top = Path(name)
        for path in names_of(top):
            files[str(path.relative_to(top.parent))] = _of_file(path)
    listed = "\n".join(f"{name} {source.sha256}" for name, source in sorted(files.items()))
    return CodeFolder(hashlib.sha256(listed.encode()).hexdigest()[:32], files)


def upload(store: ObjectStore, bucket: str, prefix: str, folder: CodeFolder) -> Sent:
    top = f"{prefix}{folder.name}/"
    there = {one.key: one for one in store.below(bucket, prefix)}
    known = {(one.tag, one.size): one.key for one in there.values()}
    put = copied = 0
    for name, source in folder.files.items():
        key, mark = top + name, (source.md5, source.size)
        if key in there and (there[key].tag, there[key].size) == mark:
            continue
        if mark in known:
            store.copy(bucket, known[mark], key)
            copied += 1
        elif source.path is not None:
            store.put_file(bucket, key, Path(source.path))
            put += 1
        else:
            store.put(bucket, key, source.content)
            put += 1
    stale = [key for key in there if key.startswith(top) and key[len(top) :] not in folder.files]
    store.delete(bucket, stale)
    return Sent(put, copied, len(folder.files) - put - copied, len(stale))


def _of_bytes(content: bytes) -> Source:
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return Source(len(content), hashlib.sha256(content).hexdigest(), md5, content)


def _of_file(path: Path) -> Source:
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    try:
        with path.open("rb") as file:
            while data := file.read(_CHUNK):
                sha256.update(data)
                md5.update(data)
                size += len(data)
    except OSError as error:
        raise SiteError(f"{path}: cannot be read: {error.strerror}") from None
    return Source(size, sha256.hexdigest(), md5.hexdigest(), path=str(path))
