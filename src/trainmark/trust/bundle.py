"""A bundle that was opened: unpacked into a folder of its own, which is gone afterwards."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.spec.case_id import is_name
from trainmark.store.rundir import RunDir
from trainmark.trust import archive, keys, pack, statement
from trainmark.trust.archive import Member, NotABundle
from trainmark.trust.records import MANIFEST, ROLES, RUNS, SCHEMA, SIGNATURES, BundleManifest

_MOST_MANIFEST = 64 * 1024**2


class OpenBundle(msgspec.Struct, frozen=True):
    """`content`: what is signed. `members`: every file of the archive as it came out."""

    path: Path
    folder: Path
    manifest: BundleManifest
    content: bytes
    members: dict[str, Member]

    @property
    def sha256(self) -> str:
        """What identifies the bundle, whoever signed it."""
        return hashlib.sha256(self.content).hexdigest()

    def runs(self) -> list[RunDir]:
        return [RunDir(self.folder / RUNS / run) for run in self.manifest.runs]

    def signatures(self) -> dict[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in self.members if name.startswith(SIGNATURES)}


@contextlib.contextmanager
def opened(path: Path) -> Iterator[OpenBundle]:
    """UserError when it is no bundle of a version that can be read."""
    if not path.is_file():
        raise NotABundle(f"{path}: no such file" if not path.exists() else f"{path}: not a plain file")
    with tempfile.TemporaryDirectory(prefix="trainmark-bundle-") as folder:
        yield _read(path, Path(folder), archive.unpack(path, Path(folder)))


def _read(path: Path, folder: Path, members: dict[str, Member]) -> OpenBundle:
    if MANIFEST not in members or members[MANIFEST].size > _MOST_MANIFEST:
        raise NotABundle(f"{path}: not a bundle: {MANIFEST} is not in it")
    content = (folder / MANIFEST).read_bytes()
    try:
        schema = msgspec.json.decode(content, type=_Head).schema
        if schema > SCHEMA:
            raise NotABundle(f"{path}: of schema {schema}; this trainmark reads up to {SCHEMA}: install a newer one")
        if schema < 1:
            raise NotABundle(f"{path}: not a bundle: there is no schema {schema}")
        manifest = msgspec.json.decode(content, type=BundleManifest)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise NotABundle(f"{path}: not a bundle: {MANIFEST} cannot be read: {error}") from None
    if not all(map(is_name, manifest.runs)) or len(set(manifest.runs)) < len(manifest.runs):
        raise NotABundle(f"{path}: not a bundle: {MANIFEST} names a run that is no name, or one twice")
    return OpenBundle(path, folder, manifest, content, members)


class _Head(msgspec.Struct):
    schema: int


def add_signature(path: Path, output: Path, key_name: str, role: str, passphrase: str | None = None) -> str:
    """Signs a bundle that is there, and writes it with all signatures. Returns the key's fingerprint.

    Whoever signs should have verified it: a signature says that somebody vouches for it."""
    if role not in ROLES:
        raise UserError(f"--role: found `{role}`, allowed is {', '.join(ROLES)}")
    key = keys.load(key_name, passphrase)
    with opened(path) as bundle:
        made = statement.provenance(bundle.manifest, [run.manifest() for run in bundle.runs()])
        name, content = statement.sign(key, role, bundle.content, made if role == "maker" else None)
        signatures = {**bundle.signatures(), name: content}
        files = [entry for entry in bundle.manifest.files if not entry.left_out]
        missing = [entry.path for entry in files if entry.path not in bundle.members]
        if missing:
            raise UserError(f"{path}: `{missing[0]}` is not in it; it cannot be signed")
        members = [(MANIFEST, len(bundle.content), [bundle.content])]
        members += [(path_, len(one), [one]) for path_, one in sorted(signatures.items())]
        body = ((one.path, bundle.members[one.path].size, _file(bundle.folder / one.path)) for one in files)
        pack.write_file(output, itertools.chain(members, body))
    return keys.fingerprint(keys.raw(key.public_key()))


def _file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1024 * 1024):
            yield block
