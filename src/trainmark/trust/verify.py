"""Verifies a bundle: signatures, digests, that nothing is missing, that it can have happened, and every figure anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import UserError
from trainmark.extras import need
from trainmark.reasons import EMULATED, listed, reason
from trainmark.report import build
from trainmark.report.records import Report
from trainmark.score.records import SCORER_VERSION
from trainmark.store.files import BROKEN
from trainmark.store.rundir import RESULT, RunDir
from trainmark.trust import checks, citation, integrity, keyless, pack, plausibility, programs, scores
from trainmark.trust.archive import canonical
from trainmark.trust.bundle import OpenBundle, opened
from trainmark.trust.checks import RunChecks
from trainmark.trust.records import (
    FIGURES,
    RUNS,
    SERIES,
    Finding,
    Reported,
    Signature,
    Verification,
    fault,
    remark,
)

# Of one kind in one bundle; more tell nothing new.
MOST_FINDINGS = 20


def verify(path: Path) -> Verification:
    """What can be said of a bundle. UserError when it is none."""
    need("trust", "verify", "cryptography", "zstandard")
    with opened(path) as bundle:
        return _verified(bundle)


def _verified(bundle: OpenBundle) -> Verification:
    counts: dict[str, int] = {}
    signatures, findings = _signatures(bundle)
    of_files = [*integrity.files(bundle, counts), *integrity.digests_of_agents(bundle)]
    findings += of_files
    # What was altered is not worth looking into any further.
    intact = not any(one.severity == "fault" for one in of_files)
    figures: list[dict[str, Any]] = []
    experiments: list[dict[str, Any]] = []
    if intact:
        findings += _runs(bundle, counts, figures, experiments)
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
        experiments=experiments,
        contents=_contents(bundle),
    )


def _signatures(bundle: OpenBundle) -> tuple[list[Signature], list[Finding]]:
    """Those in the bundle, and one of an identity beside it, which does in the place of a maker's."""
    signatures, findings = integrity.signatures(bundle)
    more, said = keyless.look(bundle.path)
    if more:
        findings = [one for one in findings if one.reason.code not in ("not-signed", "maker-not-signed")]
    return [*signatures, *more], [*findings, *said]


def _contents(bundle: OpenBundle) -> dict[str, str]:
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


def _reported(bundle: OpenBundle) -> dict[str, dict[str, Any]] | None:
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


def _runs(
    bundle: OpenBundle, counts: dict[str, int], figures: list[dict[str, Any]], experiments: list[dict[str, Any]]
) -> Iterator[Finding]:
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
            for case in report.cases:
                emulated = [flag.reason for flag in case.flags if flag.reason.code == EMULATED]
                yield from (remark(why, case.case) for why in emulated)
            if report.experiment is None:
                figures += _figures(report)
            else:
                told = {"run": report.run, "experiment": report.experiment.name, "rules": report.experiment.rules}
                experiments.append({**told, **scores.known_figures(report)})
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


def _inside(text: str, bundle: OpenBundle) -> str:
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
