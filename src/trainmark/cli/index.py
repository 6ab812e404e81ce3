"""`trainmark index`."""

from __future__ import annotations

import argparse

from trainmark.cli import common, terminal
from trainmark.report.make.index_row import summarise
from trainmark.store.index import Index


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_runs(parser)
    parser.add_argument("--rebuild", action="store_true", help="forget the index and read every run again")


def call(args: argparse.Namespace) -> int:
    index = Index(args.runs)
    count = index.rebuild(summarise) if args.rebuild else len(index.rows(summarise))
    terminal.tell(f"{count} run(s) of {args.runs.resolve()} in {index.file}\n")
    return 0
