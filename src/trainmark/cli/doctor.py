"""`trainmark doctor`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from trainmark.cli import common, terminal
from trainmark.cli.list import table
from trainmark.errors import OK, SITE_UNUSABLE
from trainmark.launch.protocol import Finding, launcher_of


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    common.add_runs(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def call(args: argparse.Namespace) -> int:
    site = common.load_site(args)
    findings = launcher_of(site).check(site, None)
    if args.json:
        terminal.json(findings)
    else:
        terminal.out(text(findings))
    return SITE_UNUSABLE if bad(findings) else OK


def bad(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.good is False]


def text(findings: Sequence[Finding]) -> str:
    marks = {True: "ok", False: "BAD", None: "note"}
    rows = [{"host": f.host, "what": f.what, "": marks[f.good], "found": f.found} for f in findings]
    cures = [f"{f.host}: {f.what}: {f.cure}\n" for f in findings if f.cure]
    return table(rows) + "".join(cures)
