"""The tester's verdict on a result: the bundle is verified, recomputed, and held against the test and its ticket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.plan.records import CasePlan
from trainmark.reasons import reason
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.rundir import RunDir
from trainmark.tester import attachment
from trainmark.tester.definition import Definition, check_changes, expected
from trainmark.tester.tickets import Issued, Verdict
from trainmark.trust import verify
from trainmark.trust.bundle import opened
from trainmark.trust.records import Finding, Verification, fault

# Seconds by which a journal may be longer than the time that the tester saw pass.
_TOLERANCE = 5.0


def judge(bundle: Path, definition: Definition, issued: Issued, received: float) -> Verdict:
    """Never raises for what a subject sent: what cannot be read is a fault."""
    try:
        verification = verify.verify(bundle)
        findings = [*_against(bundle, verification, definition, issued, received), *verification.findings]
        figures, digest = verification.figures, verification.sha256
    except UserError as error:
        findings, figures, digest = [fault(reason("text", text=str(error)))], [], ""
    return Verdict(
        ticket=issued.ticket.ticket,
        test=issued.ticket.test,
        bundle=digest,
        accepted=not any(one.severity == "fault" for one in findings),
        findings=findings,
        figures=figures,
        received=received,
    )


def _against(
    bundle: Path, found: Verification, definition: Definition, issued: Issued, received: float
) -> Iterator[Finding]:
    ticket = issued.ticket
    if received > ticket.until:
        hours = round((received - ticket.issued) / 3600, 1)
        yield fault(reason("test-late", hours=hours, most=definition.limits.hours))
    if not any(one.valid and one.role == "maker" and one.key == issued.subject for one in found.signatures):
        yield fault(reason("test-signed-by-another"))
    if not found.verified:
        return  # what was altered is not worth looking into any further
    with opened(bundle) as content:
        runs = content.runs()
        if len(runs) != 1:
            yield fault(reason("test-several-runs", count=len(runs)))
            return
        yield from _of_run(runs[0], definition, issued, received)
    for row in found.figures:
        if row["state"] != JobState.SUCCEEDED:
            yield fault(reason("test-case-not-succeeded", state=row["state"]), str(row["case"]))


def _of_run(run: RunDir, definition: Definition, issued: Issued, received: float) -> Iterator[Finding]:
    plan, ticket = run.manifest().plan, issued.ticket
    said = attachment.read(run)
    if said is None or said.ticket != ticket or plan.seed != ticket.seed:
        yield fault(reason("test-another-ticket"))
        return
    try:
        check_changes(definition, said.changed, {})
        wanted = expected(definition, plan.site, said.changed)
    except UserError as error:
        yield fault(reason("text", text=str(error)))
        return
    planned = {case.case: _chosen(case) for case in plan.cases}
    for case in {**wanted, **planned}:
        if msgspec.to_builtins(wanted.get(case)) != msgspec.to_builtins(planned.get(case)):
            yield fault(reason("test-case-differs"), case)
    if plan.within != definition.loaded().suite.within or plan.kind != "benchmark":
        yield fault(reason("test-case-differs"))
    walls = [one.wall for one in journal.read(run.path).records]
    lasted = (max(walls) - min(walls)) / 1e9 if walls else 0.0
    if lasted > received - ticket.issued + _TOLERANCE:
        yield fault(reason("test-took-longer", seconds=round(lasted), most=round(received - ticket.issued)))


def _chosen(case: CasePlan) -> tuple[object, ...]:
    """As `definition.expected` has it."""
    return case.fingerprint, case.id.repeat, case.length, case.window
