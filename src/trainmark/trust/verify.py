"""Verifies a bundle: signatures, digests, that nothing is missing, that it can have happened, and every figure anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.extras import need
from trainmark.reasons import reason
from trainmark.report import build
from trainmark.report.records import Report
from trainmark.score.records import SCORER_VERSION
from trainmark.store import journal
from trainmark.store.files import read_json
from trainmark.store.rundir import MANIFEST as RUN_MANIFEST
from trainmark.store.rundir import RESULT, RunDir
from trainmark.trust import checks, citation, keys, pack, removal, statement
from trainmark.trust.archive import canonical
from trainmark.trust.bundle import Opened, opened
from trainmark.trust.checks import RunChecks, fault, remark
from trainmark.trust.records import (
    FIGURES,
    MANIFEST,
    RUNS,
    SIGNATURES,
    Finding,
    Reported,
    Signature,
    Verification,
    tree_root,
)

# Of one kind in one bundle; more tell nothing new.
MOST_FINDINGS = 20


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
        reported = _reported(bundle)
        for run in bundle.runs():
            findings += _run(run, bundle, reported, counts, figures)
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
    )


def _signatures(bundle: Opened) -> tuple[list[Signature], list[Finding]]:
    known = keys.names()
    found, findings = [], []
    for name, content in sorted(bundle.signatures().items()):
        made = statement.open_envelope(content, bundle.content, known)
        if made is None:
            findings.append(fault(reason("signature-unreadable"), name))
            continue
        found.append(made.signature)
        if not made.signature.valid:
            findings.append(fault(reason("signature-wrong", role=made.signature.role), name))
        elif made.signature.name is None:
            findings.append(remark(reason("signer-unknown", role=made.signature.role, key=made.signature.key[:16])))
    if not any(one.valid and one.role == "maker" for one in found):
        findings.append(fault(reason("not-signed")) if not found else fault(reason("maker-not-signed")))
    return found, findings


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
        if member is None and entry.left_out:
            findings.append(remark(reason("file-left-out"), entry.path))
        elif member is None:
            findings.append(fault(reason("file-missing"), entry.path))
        elif (member.size, member.sha256) != (entry.size, entry.sha256):
            findings.append(fault(reason("member-changed"), entry.path))
        if entry.removed:
            findings.append(remark(reason("bytes-removed", count=len(entry.removed)), entry.path))
            grown = sum(len(removal.marker(one)) - one.length for one in entry.removed)
            if entry.original is None or entry.original.size + grown != entry.size:
                findings.append(fault(reason("removal-wrong"), entry.path))
    return findings


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
            here = packed.get(path.removesuffix(RESULT) + name)
            if wanted and here and wanted != here:
                findings.append(fault(reason("not-what-agent-wrote"), path.removesuffix(RESULT) + name))
    for run in bundle.runs():
        owners = [record.digest for record in journal.read(run.path).records if record.k == journal.OWNER]
        here = packed.get(f"{RUNS}{run.id}/{RUN_MANIFEST}")
        if any(digest and digest != here for digest in owners):
            findings.append(fault(reason("not-what-agent-wrote"), f"{RUNS}{run.id}/{RUN_MANIFEST}"))
    return findings


def _reported(bundle: Opened) -> dict[str, dict[str, Any]] | None:
    try:
        found = msgspec.json.decode((bundle.folder / FIGURES).read_bytes(), type=Reported)
        return {str(one["run"]): one for one in found.reports} if found.scorer == SCORER_VERSION else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, LookupError):
        return {}


def _run(
    run: RunDir,
    bundle: Opened,
    reported: dict[str, dict[str, Any]] | None,
    counts: dict[str, int],
    figures: list[dict[str, Any]],
) -> Iterator[Finding]:
    try:
        looked = RunChecks(run, bundle.folder)
        yield from looked.all()
        for what, count in looked.counts.items():
            counts[what] = counts.get(what, 0) + count
        report = build.build(run)
        yield from checks.peak_findings(run, report)
        yield from _recomputed(run, reported, counts)
        figures += _figures(report)
        yield from _selection(run, bundle)
    except UserError as error:
        yield fault(reason("run-unreadable", why=_inside(str(error), bundle)), f"{RUNS}{run.id}")


def _inside(text: str, bundle: Opened) -> str:
    """Without the folder that it was unpacked to."""
    return text.replace(f"{bundle.folder}/", "")


def _recomputed(run: RunDir, reported: dict[str, dict[str, Any]] | None, counts: dict[str, int]) -> Iterator[Finding]:
    """Every figure is made again from the raw events, and must be the same to the last digit."""
    if reported is None:
        yield remark(reason("other-scorer", version=SCORER_VERSION), run.id)
        return
    said = reported.get(run.id)
    if said is None:
        yield fault(reason("figures-missing"), run.id)
        return
    # By way of JSON, as the figures came.
    anew: dict[str, Any] = msgspec.json.decode(canonical(pack.as_reported(run)))
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


def _selection(run: RunDir, bundle: Opened) -> Iterator[Finding]:
    """Whoever shows the best runs of many shows that there were more."""
    place = run.manifest().series
    if place is None:
        return
    others = [one.manifest().series for one in bundle.runs()]
    mine = {one.number for one in others if one is not None and one.name == place.name}
    if place.number == max(mine) and len(mine) < place.number:
        yield remark(reason("runs-of-series", shown=len(mine), of=place.number), run.id)


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
