"""What a bundle holds, as records. docs/bundle.md describes the same for those who write another verifier."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trainmark.reasons import Reason

SCHEMA = 1
MANIFEST = "bundle.json"
SIGNATURES = "signatures/"
RUNS = "runs/"
SOURCES = "sources/"
FIGURES = "figures.json"
PACKAGES = "packages.cdx.json"
SERIES = "series.jsonl"

Size = Annotated[int, Meta(ge=0, le=2**53)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Role = Literal["maker", "operator", "auditor"]
ROLES: tuple[Role, ...] = ("maker", "operator", "auditor")


class Removal(msgspec.Struct, frozen=True):
    """Bytes that were taken out of a file: where they began in the original, how many, and what they looked like."""

    offset: Size
    length: Size
    kind: str


class Original(msgspec.Struct, frozen=True):
    """A file before anything was taken out of it."""

    size: Size
    sha256: Digest


class FileEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of the bundle. `left_out`: its digest is here and its content is not."""

    path: str
    size: Size
    sha256: Digest
    removed: list[Removal] = []
    original: Original | None = None
    left_out: bool = False


class BundleManifest(msgspec.Struct, frozen=True):
    """`bundle.json`: what is signed. `root` is that of the tree over all files, see `tree_root`."""

    schema: int
    trainmark: str
    scorer: int
    runs: list[str]
    files: list[FileEntry]
    root: Digest
    anonymous: bool = False


class Reported(msgspec.Struct, frozen=True):
    """`figures.json`: the report of each run as it was when the run was packed."""

    scorer: int
    reports: list[dict[str, Any]]


class Signature(msgspec.Struct, frozen=True):
    """A signature as it was found. `key`: fingerprint; `name`: what the reader calls that key, if it is trusted. Of a
    keyless one `name` is the identity, and `key` the provider who vouches for it."""

    role: str
    key: str
    valid: bool
    name: str | None = None


Severity = Literal["fault", "remark"]


class Finding(msgspec.Struct, frozen=True):
    """`fault`: the bundle is not what it says. `remark`: true, and worth knowing before it is believed."""

    severity: Severity
    reason: Reason
    place: str = ""


def fault(why: Reason, place: str = "") -> Finding:
    return Finding("fault", why, place)


def remark(why: Reason, place: str = "") -> Finding:
    return Finding("remark", why, place)


class Verification(msgspec.Struct, frozen=True):
    """What `trainmark verify` says of one bundle. `checks`: what was looked at, with how many things were."""

    bundle: str
    sha256: str
    verified: bool
    runs: list[str]
    signatures: list[Signature]
    checks: dict[str, int]
    findings: list[Finding]
    # Case → throughput with its interval, recomputed here.
    figures: list[dict[str, Any]] = []
    # AutoML experiments: run, name, rules and scores.
    experiments: list[dict[str, Any]] = []
    # Run → what identifies its content, however it was packed.
    contents: dict[str, str] = {}

    def faults(self) -> list[Finding]:
        return [one for one in self.findings if one.severity == "fault"]


def leaf(entry: FileEntry) -> bytes:
    """RFC 6962's way: leaves and nodes are hashed with different first bytes, so that none can pass for the other."""
    content = entry.path.encode() + b"\0" + bytes.fromhex(entry.sha256) + entry.size.to_bytes(8, "big")
    return hashlib.sha256(b"\x00" + content).digest()


def tree_root(files: Sequence[FileEntry]) -> str:
    """The root of the tree over files in the order of their paths; an odd node rises as it is."""
    level = [leaf(entry) for entry in files]
    if not level:
        return hashlib.sha256(b"").hexdigest()
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].hex()
