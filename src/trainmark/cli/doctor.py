"""`trainmark doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.errors import OK, SITE_UNUSABLE
from trainmark.i18n import words
from trainmark.i18n.speaker import say
from trainmark.launch.doctor import look
from trainmark.launch.protocol import Finding
from trainmark.reasons import Reason


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    common.add_runs(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    site = common.load_site(args)
    findings = look(site)
    if args.json:
        terminal.json([_record(finding) for finding in findings])
    else:
        terminal.out(text(findings, args.language))
    return SITE_UNUSABLE if bad(findings) else OK


def bad(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.good is False]


def text(findings: Sequence[Finding], language: str = "en") -> str:
    marks = {True: "ok", False: "BAD", None: "note"}
    rows = [{"host": f.host, "what": f.what, "": marks[f.good], "found": say(f.found, language)} for f in findings]
    cures = [
        f"{f.host}: {words.cell(f.what, language)}: {words.lines(say(f.cure, language), language)}\n"
        for f in findings
        if f.cure
    ]
    return table(rows) + "".join(dict.fromkeys(cures))


def _record(finding: Finding) -> dict[str, Any]:
    """Words for people, and the code of what was found where it has one, for programs."""
    found = {"host": finding.host, "what": finding.what, "good": finding.good}
    code = finding.found.code if isinstance(finding.found, Reason) else None
    return {**found, "found": say(finding.found), "cure": say(finding.cure), "code": code}
