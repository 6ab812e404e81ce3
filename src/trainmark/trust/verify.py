"""Verifies a bundle: signatures, digests, that nothing is missing, that it can have happened, and every figure anew."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.extras import need
from trainmark.reasons import listed, reason
from trainmark.report import build
from trainmark.report.records import Report
from trainmark.score.records import SCORER_VERSION
from trainmark.store import digests, journal
from trainmark.store.files import BROKEN, read_json
from trainmark.store.rundir import EVENTS, RESULT, RunDir
from trainmark.store.rundir import MANIFEST as RUN_MANIFEST
from trainmark.trust import checks, citation, keys, pack, plausibility, programs, removal, statement
from trainmark.trust.archive import MOST_BYTES, canonical
from trainmark.trust.bundle import Opened, opened
from trainmark.trust.checks import RunChecks
from trainmark.trust.records import (
    FIGURES,
    MANIFEST,
    RUNS,
    SERIES,
    SIGNATURES,
    FileEntry,
    Finding,
    Reported,
    Signature,
    Verification,
    fault,
    remark,
    tree_root,
)

# Of one kind in one bundle; more tell nothing new.
MOST_FINDINGS = 20
_READ_IN_PIECES = (EVENTS, pack.LOGS)
_MOST_WHOLE = 256 * 1024**2
_MOST_SIGNATURE = 16 * 1024**2


def verify(path: Path) -> Verification:
    """What can be said of a bundle. UserError when it is none."""
    need("trust", "verify", "cryptography", "zstandard")
    with opened(path) as bundle:
        return _verified(bundle)


def _verified(bundle: Opened) -> Verification:
    counts: dict[str, int] = {}
    signatures, findings = _signatures(bundle)
    of_files = [*_files(bundle, counts), *_digests_of_agents(bundle)]
    findings += of_files
    # What was altered is not worth looking into any further.
    intact = not any(one.severity == "fault" for one in of_files)
    figures: list[dict[str, Any]] = []
    if intact:
        findings += _runs(bundle, counts, figures)
    else:
        findings.append(remark(reason("not-looked-into")))
    findings = _shortened(findings)
    return Verification(
        bundle=bundle.path.name,
        sha256=bundle.sha256,
        verified=not any(one.severity == "fault" for one in findings),
        runs=bundle.manifest.runs,
        signatures=signatures,
        checks=counts,
        findings=findings,
        figures=figures,
        contents=_contents(bundle),
    )


def _contents(bundle: Opened) -> dict[str, str]:
    """Run → a digest of its files as they were before anything was taken out of them. Not of the list of its series,
    which grows."""
    found = {run: hashlib.sha256() for run in bundle.manifest.runs}
    for entry in bundle.manifest.files:
        run, _, inside = entry.path.removeprefix(RUNS).partition("/")
        if entry.path.startswith(RUNS) and run in found and inside != SERIES:
            found[run].update(f"{inside} {(entry.original or entry).sha256}\n".encode())
    return {run: digest.hexdigest() for run, digest in found.items()}


def in_two_versions(found: Sequence[Verification]) -> dict[str, list[str]]:
    """Runs that several bundles tell differently of → these bundles. One of them at least is not what happened."""
    versions: dict[str, dict[str, list[str]]] = {}
    for one in found:
        for run, content in one.contents.items():
            versions.setdefault(run, {}).setdefault(content, []).append(one.bundle)
    return {
        run: sorted(name for names in one.values() for name in names) for run, one in versions.items() if len(one) > 1
    }


def together(found: Sequence[Verification]) -> list[Verification]:
    """Each with the faults that show only beside the others."""
    several = in_two_versions(found)
    made = []
    for one in found:
        more = [
            fault(reason("run-in-two-versions", run=run, bundles=listed(names)))
            for run, names in several.items()
            if run in one.contents
        ]
        made.append(msgspec.structs.replace(one, findings=[*more, *one.findings], verified=one.verified and not more))
    return made


def _signatures(bundle: Opened) -> tuple[list[Signature], list[Finding]]:
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


def _says_the_same(said: dict[str, Any], bundle: Opened) -> bool:
    """Whether the maker's statement tells of the runs and sources that are in the bundle."""
    try:
        expected = statement.provenance(bundle.manifest, [run.manifest() for run in bundle.runs()])
    except UserError:
        return True  # that a manifest cannot be read is found elsewhere
    return bool(said["predicate"] == msgspec.json.decode(canonical(expected)))


def _files(bundle: Opened, counts: dict[str, int]) -> list[Finding]:
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


def _digests_of_agents(bundle: Opened) -> list[Finding]:
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


def _reported(bundle: Opened) -> dict[str, dict[str, Any]] | None:
    """The figures as they were packed, by run; None when another version of scoring made them."""
    try:
        content = (bundle.folder / FIGURES).read_bytes()
        found = msgspec.json.decode(content, type=Reported)
        once = msgspec.json.encode(msgspec.json.decode(content)) == content  # no key stands in it twice
        if not once or found.scorer != bundle.manifest.scorer:
            return {}
        return {str(one["run"]): one for one in found.reports} if found.scorer == SCORER_VERSION else None
    except (OSError, msgspec.DecodeError, ValueError, LookupError, RecursionError):
        return {}


def _runs(bundle: Opened, counts: dict[str, int], figures: list[dict[str, Any]]) -> Iterator[Finding]:
    """Everything that the runs themselves show."""
    reported = _reported(bundle)
    runs = bundle.runs()
    removed = {entry.path for entry in bundle.manifest.files if entry.removed}

    def altered(folder: Path) -> bool:
        below = folder.relative_to(bundle.folder).as_posix() + "/"
        return any(path.startswith(below) and path.endswith(RESULT) for path in removed)

    looked: list[RunChecks] = []
    for run in runs:
        try:
            one = RunChecks(run, bundle.folder, altered)
            yield from one.all()
            for what, count in one.counts.items():
                counts[what] = counts.get(what, 0) + count
            report = build.build(run)
            yield from checks.peak_findings(run, report)
            yield from _recomputed(run, report, reported, counts)
            figures += _figures(report)
            looked.append(one)
        except UserError as error:
            yield fault(reason("run-unreadable", why=_inside(str(error), bundle)), f"{RUNS}{run.id}")
        except BROKEN as error:
            # Whoever makes a bundle decides what is in each file: what no reader expects is a finding, not an accident.
            yield fault(reason("run-unreadable", why=f"{type(error).__name__}: {error}"[:200]), f"{RUNS}{run.id}")
    if len(looked) == len(runs):
        yield from programs.around([one.manifest for one in looked], bundle.folder)
        yield from _selection(looked)
    for place, why in plausibility.of_rounds([shape for one in looked for shape in one.shapes]):
        yield fault(why, place)


def _inside(text: str, bundle: Opened) -> str:
    """Without the folder that it was unpacked to."""
    return text.replace(f"{bundle.folder}/", "")


def _recomputed(
    run: RunDir, report: Report, reported: dict[str, dict[str, Any]] | None, counts: dict[str, int]
) -> Iterator[Finding]:
    """Every figure is made again from the raw events, and must be the same to the last digit."""
    if reported is None:
        yield remark(reason("other-scorer", version=SCORER_VERSION), run.id)
        return
    said = reported.get(run.id)
    if said is None:
        yield fault(reason("figures-missing"), run.id)
        return
    # By way of JSON, as the figures came.
    anew: dict[str, Any] = msgspec.json.decode(canonical(pack.as_reported(report)))
    cases = {one.get("case"): one for one in said.get("cases", ())}
    for case in anew["cases"]:
        before = cases.pop(case["case"], None)
        if before is None:
            yield fault(reason("figures-missing"), case["case"])
            continue
        counts["measurements"] = counts.get("measurements", 0) + len(case["measurements"])
        for name in sorted({*case["measurements"], *before.get("measurements", {})}):
            if case["measurements"].get(name) != before.get("measurements", {}).get(name):
                yield fault(reason("figure-differs", name=name), case["case"])
        if {**case, "measurements": None} != {**before, "measurements": None}:
            yield fault(reason("case-differs"), case["case"])
    for name in cases:
        yield fault(reason("case-not-in-run"), str(name))
    if {**anew, "cases": None} != {**said, "cases": None}:
        yield fault(reason("report-differs"), run.id)


def _selection(looked: Sequence[RunChecks]) -> Iterator[Finding]:
    """Whoever shows the best runs of many shows that there were more."""
    shown: dict[str, list[RunChecks]] = {}
    for one in looked:
        if one.manifest.series is not None and one.of_series:
            shown.setdefault(one.manifest.series.name, []).append(one)
    for several in shown.values():
        of = max(one.of_series for one in several)
        if len(several) < of:
            yield remark(reason("runs-of-series", shown=len(several), of=of), several[-1].run.id)


def _figures(report: Report) -> list[dict[str, Any]]:
    found = []
    for case in report.cases:
        speed = case.measurements.get("throughput")
        found.append(
            {
                "run": report.run,
                "case": case.case,
                "state": str(case.state),
                "value": speed.value if speed is not None else None,
                "ci_low": speed.ci_low if speed is not None else None,
                "ci_high": speed.ci_high if speed is not None else None,
                "n": speed.n if speed is not None else 0,
                "unit": speed.unit if speed is not None else "",
            }
        )
    return found


def _shortened(findings: list[Finding]) -> list[Finding]:
    """Faults first; of many of one kind the first few, and how many more there are."""
    kept: list[Finding] = []
    counts: dict[tuple[str, str], int] = {}
    for one in sorted(findings, key=lambda one: one.severity != "fault"):
        kind = one.severity, one.reason.code
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= MOST_FINDINGS:
            kept.append(one)
    for (severity, code), count in counts.items():
        if count > MOST_FINDINGS:
            more = reason("more-findings", code=code, count=count - MOST_FINDINGS)
            kept.append(fault(more) if severity == "fault" else remark(more))
    return kept


def cite(path: Path) -> str:
    """How others cite the first run of a bundle: a line, and an entry for BibTeX."""
    with opened(path) as bundle:
        manifest = bundle.runs()[0].manifest()
        return f"{citation.line(manifest, bundle.sha256)}\n\n{citation.bibtex(manifest, bundle.sha256)}"
