"""`trainmark report`: recomputed from the run directory each time."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trainmark.cli import common
from trainmark.errors import UserError
from trainmark.report import formats
from trainmark.report.words import LANGUAGES
from trainmark.store.rundir import RunDir

PAGE = "report.html"


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument(
        "--format",
        choices=formats.FORMATS,
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
    from trainmark.report import build

    run = common.find_run(args)
    kind = formats.chosen(args.format, args.output)
    content = formats.render(build.build(run, series=kind == "html"), kind, args.lang)
    target = _target(args.output, kind, run)
    if target is None:
        sys.stdout.write(content)
        return 0
    write_report(target, content)
    if args.output is None:
        print(target)
    return 0


def _target(output: Path | None, kind: str, run: RunDir) -> Path | None:
    return run.path / PAGE if output is None and kind == "html" else output


def write_report(path: Path, content: str) -> None:
    from trainmark.store.files import write_whole

    # A line of a log may hold bytes that were no text.
    data = content.encode("utf-8", "replace")
    try:
        if path.exists() and not path.is_file():
            # A pipe or a terminal is written to, never replaced by a file.
            path.write_bytes(data)
        else:
            write_whole(path.resolve(), data)
    except OSError as error:
        raise UserError(f"--output {path}: cannot be written: {error.strerror}; name another file with -o") from None
