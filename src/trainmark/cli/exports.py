"""`trainmark export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli import common, terminal
from trainmark.cli.imports import add_formats, add_options, format_parsers, options_of
from trainmark.i18n.speaker import say
from trainmark.interop.protocol import REGISTRY, Format
from trainmark.store import digests, rundir


def configure(parser: argparse.ArgumentParser) -> None:
    for format_parser, form in format_parsers(add_formats(parser), "export_options"):
        format_parser.add_argument(
            "run",
            nargs="*",
            metavar="RUN",
            help="run ids, their unique starts or ends, or folders (default: newest)",
        )
        common.add_runs(format_parser)
        format_parser.add_argument(
            "-o", "--output", type=Path, required=True, metavar="PATH", help="the file or folder to write"
        )
        add_options(format_parser, form.export_options or ())


def call(args: argparse.Namespace) -> int:
    form: Format = REGISTRY.get(args.format, "export")
    runs = [rundir.find(args.runs, name) for name in args.run or [None]]
    for run in runs:
        for one in digests.changes_of_run(run):
            terminal.err(f"warning: {say(one)}\n")
    for file in form.write(runs, args.output, options_of(args, form.export_options)):
        if file.name == getattr(form, "printed", None):
            terminal.out(file.read_text(encoding="utf-8"))
        terminal.line(file)
    return 0
