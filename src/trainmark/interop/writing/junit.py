"""`export junit`: every case a test case, for the page of a CI system."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from trainmark.i18n.speaker import say
from trainmark.interop.protocol import WriteOnly
from trainmark.report.figures import flag_text
from trainmark.report.records import CaseReport, Report
from trainmark.spec.case_id import CaseId
from trainmark.spec.states import JobState

# What XML cannot hold, even escaped.
_UNSPEAKABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WRONG = (JobState.FAILED, JobState.INVALID, JobState.TIMEOUT)


class JUnit(WriteOnly):
    summary = "test results for CI systems: one test case for every case"

    def render(self, reports: Sequence[Report]) -> bytes:
        top = ElementTree.Element("testsuites")
        for report in reports:
            states = [case.state for case in report.cases]
            suite = ElementTree.SubElement(
                top,
                "testsuite",
                name=_text(report.suite),
                id=_text(report.run),
                tests=str(len(states)),
                failures=str(sum(state in _WRONG for state in states)),
                skipped=str(states.count(JobState.SKIPPED)),
                errors=str(sum(_kind(state) == "error" for state in states)),
            )
            for case in report.cases:
                _case(suite, case)
        ElementTree.indent(top)
        return bytes(ElementTree.tostring(top, encoding="utf-8", xml_declaration=True)) + b"\n"


def _kind(state: JobState) -> str:
    if state is JobState.SUCCEEDED:
        return ""
    if state is JobState.SKIPPED:
        return "skipped"
    return "failure" if state in _WRONG else "error"


def _case(suite: ElementTree.Element, case: CaseReport) -> None:
    found = CaseId.parse(case.case)
    element = ElementTree.SubElement(
        suite, "testcase", classname=f"{found.workload}.{found.framework_text}", name=_text(case.case)
    )
    properties = ElementTree.SubElement(element, "properties")
    for one in case.measurements.values():
        if one.value is not None:
            ElementTree.SubElement(properties, "property", name=one.name, value=f"{one.value:.6g} {one.unit}")
    kind = _kind(case.state)
    if kind:
        outcome = ElementTree.SubElement(
            element, kind, message=_text(say(case.reason) or str(case.state)), type=str(case.state)
        )
        outcome.text = _text("\n".join((case.failure or {}).get("last_lines", [])))
    said = [*map(flag_text, case.flags), *case.notes]
    if said:
        ElementTree.SubElement(element, "system-out").text = _text("\n".join(map(say, said)))


def _text(text: str) -> str:
    return _UNSPEAKABLE.sub("?", text)
