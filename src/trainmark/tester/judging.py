"""The tester's verdict on a result: the bundle is verified, recomputed, and held against the test and its ticket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.plan.records import CasePlan, Plan
from trainmark.reasons import reason
from trainmark.spec.case import SYNTHETIC
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.store.files import BROKEN
from trainmark.store.rundir import RunDir
from trainmark.tester import attachment
from trainmark.tester.definition import Definition, check_changes, expected
from trainmark.tester.tickets import Issued, TicketVerdict
from trainmark.trust import verify
from trainmark.trust.bundle import opened
from trainmark.trust.records import Finding, Verification, fault

# Seconds by which a journal may be longer than the time that the tester saw pass.
_TOLERANCE = 5.0
# What depends on the subject's machine and its site; all else is as the tester plans it. Folders are looked at apart.
_PATHS = ("data", "checkpoint")
_PLAN_OF_SUBJECT = frozenset(("site", "cases", "peaks", "peaks_file", "suite_text"))
_CASE_OF_SUBJECT = frozenset((*_PATHS, "nodes", "env", "path", "ports", "files", "folder", "peak", "reachable"))


def judge(bundle: Path, definition: Definition, issued: Issued, received: float) -> TicketVerdict:
    """Never raises for what a subject sent: what cannot be read is a fault."""
    try:
        verification = verify.verify(bundle)
        findings = [*_against(bundle, verification, definition, issued, received), *verification.findings]
        figures, digest = verification.figures, verification.sha256
    except UserError as error:
        findings, figures, digest = [fault(reason("text", text=str(error)))], [], ""
    except BROKEN as error:
        why = f"{type(error).__name__}: {error}"[:200]
        findings, figures, digest = [fault(reason("run-unreadable", why=why))], [], ""
    return TicketVerdict(
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
        wanted = expected(definition, plan.site, said.changed, ticket.seed)
    except UserError as error:
        yield fault(reason("text", text=str(error)))
        return
    yield from _differences(wanted, plan)
    walls = [one.wall for one in journal.read(run.path).records]
    lasted = (max(walls) - min(walls)) / 1e9 if walls else 0.0
    if lasted > received - ticket.issued + _TOLERANCE:
        yield fault(reason("test-took-longer", seconds=round(lasted), most=round(received - ticket.issued)))


def _differences(wanted: Plan, planned: Plan) -> Iterator[Finding]:
    """Every value is looked at: a fingerprint in a manifest is but what the subject says it is."""
    for name in _unlike(wanted, planned, _PLAN_OF_SUBJECT):
        yield fault(reason("test-plan-differs", what=name))
    ours, theirs = ({case.case: case for case in plan.cases} for plan in (wanted, planned))
    for case in {**ours, **theirs}:
        if case not in ours or case not in theirs:
            yield fault(reason("test-case-differs"), case)
            continue
        one, other = ours[case], theirs[case]
        names = _unlike(one, other, _CASE_OF_SUBJECT)
        names += [name for name in _PATHS if not _same_place(getattr(one, name), getattr(other, name))]
        if [len(node.ranks) for node in one.nodes] != [len(node.ranks) for node in other.nodes]:
            names.append("nodes")
        for name in names:
            yield fault(reason("test-value-differs", what=name), case)


def _unlike(one: Plan | CasePlan, other: Plan | CasePlan, without: frozenset[str]) -> list[str]:
    """Fields with another value; both as they are after they were written and read."""
    a, b = (msgspec.json.decode(msgspec.json.encode(each)) for each in (one, other))
    return [name for name in a if name not in without and a[name] != b.get(name)]


def _same_place(wanted: str | None, planned: str | None) -> bool:
    """As `definition.expected` has paths."""
    if wanted is None or planned is None or SYNTHETIC in (wanted, planned):
        return wanted == planned
    return not wanted or planned == wanted or planned.endswith(f"/{wanted}")
