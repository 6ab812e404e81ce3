"""`trainmark report`: recomputed from the run directory each time."""

from __future__ import annotations

import argparse

from trainmark import api
from trainmark.cli import common, terminal
from trainmark.report.show import FORMATS, format_of, show
from trainmark.store.rundir import RunDir

PAGE = "report.html"
PRINTED = "report.pdf"


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument(
        "--format",
        choices=(*FORMATS, "pdf"),
        help="default: what the name of FILE ends in (.html, .pdf, .md, .json, .csv), else text. "
        f"html without -o is written to {PAGE} in the run's folder, and its path is printed",
    )
    parser.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    common.add_output(parser)


def call(args: argparse.Namespace) -> int:
    from trainmark.report.make.whole import whole

    run = api.open(args.run or "last", args.runs).folder
    kind = format_of(args.format, args.output)
    if kind == "pdf":
        return _pdf(run, args)
    content = show(whole(run, series=kind == "html"), kind, common.language(kind, args))
    page = run.path / PAGE if args.output is None and kind == "html" else None
    common.write(content, args.output or page)
    if page is not None:
        terminal.line(page)
    return 0


def _pdf(run: RunDir, args: argparse.Namespace) -> int:
    from trainmark.report.make.whole import whole
    from trainmark.report.render import pdf

    program = pdf.browser()
    content = show(whole(run, series=True), "html", args.language)
    output = args.output or run.path / PRINTED
    pdf.write(program, content, output)
    if args.output is None:
        terminal.line(output)
    return 0
