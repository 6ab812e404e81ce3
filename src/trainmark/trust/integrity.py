"""Whether a bundle is as it was signed: its signatures, its list of files, and the digests that agents wrote."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.reasons import reason
from trainmark.store import digests, journal
from trainmark.store.files import read_json
from trainmark.store.rundir import EVENTS, RESULT
from trainmark.store.rundir import MANIFEST as RUN_MANIFEST
from trainmark.trust import keys, pack, removal, statement
from trainmark.trust.archive import MOST_BYTES, canonical
from trainmark.trust.bundle import OpenBundle
from trainmark.trust.records import MANIFEST, RUNS, SIGNATURES, FileEntry, Finding, Signature, fault, remark, tree_root

_READ_IN_PIECES = (EVENTS, pack.LOGS)
_MOST_WHOLE = 256 * 1024**2
_MOST_SIGNATURE = 16 * 1024**2


def signatures(bundle: OpenBundle) -> tuple[list[Signature], list[Finding]]:
    known = keys.names()
    found, findings = [], []
    for name, content in sorted(bundle.signatures().items()):
        made = statement.open_envelope(content, bundle.content, known) if len(content) < _MOST_SIGNATURE else None
        if made is None:
            findings.append(fault(reason("signature-unreadable"), name))
            continue
        found.append(made.signature)
        if not made.signature.valid:
            findings.append(fault(reason("signature-wrong", role=made.signature.role), name))
        elif made.signature.role == "maker" and not _says_the_same(made.statement, bundle):
            findings.append(fault(reason("statement-differs"), name))
        if made.signature.valid and made.signature.name is None:
            findings.append(remark(reason("signer-unknown", role=made.signature.role, key=made.signature.key[:16])))
    if not any(one.valid and one.role == "maker" for one in found):
        findings.append(fault(reason("not-signed")) if not found else fault(reason("maker-not-signed")))
    return found, findings


def _says_the_same(said: dict[str, Any], bundle: OpenBundle) -> bool:
    """Whether the maker's statement tells of the runs and sources that are in the bundle."""
    try:
        expected = statement.provenance(bundle.manifest, [run.manifest() for run in bundle.runs()])
    except UserError:
        return True  # that a manifest cannot be read is found elsewhere
    return bool(said["predicate"] == msgspec.json.decode(canonical(expected)))


def files(bundle: OpenBundle, counts: dict[str, int]) -> list[Finding]:
    """Every file is listed, and every listed one is there with its digest."""
    entries = bundle.manifest.files
    paths = [entry.path for entry in entries]
    findings = []
    if paths != sorted(set(paths)) or tree_root(entries) != bundle.manifest.root:
        findings.append(fault(reason("tree-wrong"), MANIFEST))
    if canonical(bundle.manifest) != bundle.content:
        findings.append(fault(reason("manifest-spelled-otherwise"), MANIFEST))
    listed = {MANIFEST, *paths}
    for name in bundle.members:
        if name not in listed and not name.startswith(SIGNATURES):
            findings.append(fault(reason("file-not-listed"), name))
    for entry in entries:
        counts["files"] = counts.get("files", 0) + 1
        member = bundle.members.get(entry.path)
        if entry.path.startswith(RUNS) and entry.path.split("/")[1] not in bundle.manifest.runs:
            findings.append(fault(reason("run-not-listed"), entry.path))
        if entry.size > _most(entry.path):
            findings.append(fault(reason("file-too-large", most=_most(entry.path)), entry.path))
        if entry.left_out and not entry.path.endswith(pack.LOGS):
            findings.append(fault(reason("left-out-no-log"), entry.path))
        if member is None and entry.left_out:
            findings.append(remark(reason("file-left-out"), entry.path))
        elif member is None:
            findings.append(fault(reason("file-missing"), entry.path))
        elif (member.size, member.sha256) != (entry.size, entry.sha256):
            findings.append(fault(reason("member-changed"), entry.path))
        if entry.removed:
            findings.append(remark(reason("bytes-removed", count=len(entry.removed)), entry.path))
        if not _only_removed(bundle.folder / entry.path, entry, there=member is not None):
            findings.append(fault(reason("removal-wrong"), entry.path))
    return findings


def _most(path: str) -> int:
    """Bytes that a file may have. What is read as a whole must fit into memory."""
    return MOST_BYTES if path.endswith(_READ_IN_PIECES) else _MOST_WHOLE


def _only_removed(path: Path, entry: FileEntry, *, there: bool) -> bool:
    """Whether a marker stands at each place that something was taken from, and the sizes agree."""
    if not entry.removed:
        return entry.original is None
    if entry.original is None:
        return False
    with path.open("rb") if there else contextlib.nullcontext() as file:
        grown = end = 0
        for one in entry.removed:
            text = removal.marker(one)
            if one.offset < end or one.kind not in removal.KINDS or not one.length:
                return False
            if file is not None:
                file.seek(one.offset + grown)
                if file.read(len(text)) != text:
                    return False
            end = one.offset + one.length
            grown += len(text) - one.length
    return end <= entry.original.size and entry.original.size + grown == entry.size


def digests_of_agents(bundle: OpenBundle) -> list[Finding]:
    """Agents and controllers wrote down digests when a round ended: packed files are still the same. A file that
    something was taken out of is held against what it was before."""
    packed = {entry.path: (entry.original or entry).sha256 for entry in bundle.manifest.files}
    findings = []
    for path in [path for path in packed if path.endswith(f"/{RESULT}") and path in bundle.members]:
        result = read_json(bundle.folder / path)
        files = result.get("files") if isinstance(result, dict) else None
        for name, about in files.items() if isinstance(files, dict) else ():
            wanted = about.get("sha256") if isinstance(about, dict) else None
            place = path.removesuffix(RESULT) + name
            here = packed.get(place)
            if wanted and here and wanted != here:
                findings.append(fault(reason("not-what-agent-wrote"), place))
            # What ranks wrote into their own folders is not packed, and large files may have stayed on their host.
            own = "/" not in name and about.get("bytes") if wanted and here is None else False
            if own and name not in digests.left_there((bundle.folder / path).parent):
                findings.append(fault(reason("file-of-agent-missing"), place))
    for run in bundle.runs():
        owners = [record.digest for record in journal.read(run.path).records if record.k == journal.OWNER]
        here = packed.get(f"{RUNS}{run.id}/{RUN_MANIFEST}")
        if any(digest and digest != here for digest in owners):
            findings.append(fault(reason("not-what-agent-wrote"), f"{RUNS}{run.id}/{RUN_MANIFEST}"))
    return findings
