"""`trainmark report`: recomputed from the run directory each time."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark import api
from trainmark.cli import common, terminal
from trainmark.i18n.speaker import LANGUAGES
from trainmark.report.show import FORMATS, format_of, show

PAGE = "report.html"


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="default: what the name of FILE ends in (.html, .md, .json, .csv), else text. "
        f"html without -o is written to {PAGE} in the run's folder, and its path is printed",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to a file, whole or not at all, instead of the terminal",
    )
    parser.add_argument(
        "--lang",
        choices=LANGUAGES,
        help="language of text, md and html (default: en; a page follows the browser). Never changes json and csv",
    )


def call(args: argparse.Namespace) -> int:
    from trainmark.report.make.whole import whole

    run = api.open(args.run or "last", args.runs).folder
    kind = format_of(args.format, args.output)
    content = show(whole(run, series=kind == "html"), kind, args.lang)
    page = run.path / PAGE if args.output is None and kind == "html" else None
    common.write(content, args.output or page)
    if page is not None:
        terminal.line(page)
    return 0
