"""What a forger has: the members of a bundle, to be changed, listed, signed and written again; and what is found."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from trainmark.store import rundir
from trainmark.trust import archive, keys, statement, verify
from trainmark.trust.records import MANIFEST, BundleManifest, FileEntry, tree_root

SECOND = Path(__file__).resolve().parents[2] / "tools" / "verify_bundle.py"


def codes(path: Path) -> set[str]:
    """Of the faults that verifying finds."""
    return {one.reason.code for one in verify.verify(path).faults()}


def second_opinion(path: Path) -> int:
    """Of the verifier that shares no code with trainmark."""
    done = subprocess.run([sys.executable, str(SECOND), str(path)], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode


Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    stream = zstandard.ZstdDecompressor().stream_reader(path.open("rb"))
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def write_members(path: Path, members: Members) -> Path:
    with path.open("wb") as out:
        archive.write(out, [(name, len(content), [content]) for name, content in members.items()])
    return path


def listed_anew(members: Members) -> Members:
    """With a list of files that agrees with what is there now; signatures stay as they are."""
    old = msgspec.json.decode(members[MANIFEST], type=BundleManifest)
    files = []
    for name in sorted(set(members) - {MANIFEST}):
        if not name.startswith("signatures/"):
            before = next((one for one in old.files if one.path == name), None)
            digest = hashlib.sha256(members[name]).hexdigest()
            removed = before.removed if before is not None else []
            original = before.original if before is not None else None
            files.append(FileEntry(name, len(members[name]), digest, removed, original))
    fresh = msgspec.structs.replace(old, files=files, root=tree_root(files))
    return {**members, MANIFEST: archive.canonical(fresh)}


def signed_by(members: Members, name: str) -> Members:
    """Without the old signatures, with that of another key."""
    if name not in {one.name for one in keys.listed()}:
        keys.create(name)
    left = {path: content for path, content in members.items() if not path.startswith("signatures/")}
    path, content = statement.sign(keys.load(name), "maker", members[MANIFEST], provenance_of(members))
    return {MANIFEST: left.pop(MANIFEST), path: content, **left}


def provenance_of(members: Members) -> dict[str, Any]:
    """What an honest maker would state of these members."""
    manifest = msgspec.json.decode(members[MANIFEST], type=BundleManifest)
    runs = [msgspec.json.decode(members[f"runs/{run}/manifest.json"], type=rundir.Manifest) for run in manifest.runs]
    return statement.provenance(manifest, runs)
