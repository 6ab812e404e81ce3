"""`trainmark data`."""

from __future__ import annotations

import argparse

from trainmark.cli import terminal
from trainmark.cli.list import table

EPILOG = """\
Data of your own needs no `get`: say where it lies with `data:` in a suite or site, or `--set data=PATH`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="get|list")
    get = verbs.add_parser("get", help="fetch data sets by name, check and keep them")
    get.add_argument("name", nargs="+", help="see `trainmark data list`")
    verbs.add_parser("list", help="list the data sets that can be named")


def call(args: argparse.Namespace) -> int:
    from trainmark import data

    if args.what == "list":
        rows = [
            {
                "name": item.name,
                "here": "yes" if data.locate(item.name) else "no",
                "size": f"{item.size / 1e6:.0f} MB",
                "licence": item.licence,
                "title": item.title,
            }
            for item in data.catalogue()
        ]
        terminal.out(table(rows))
        return 0
    for name in args.name:
        path = data.get(name, progress=_say)
        terminal.out(f"{path}\n")
    return 0


def _say(text: str) -> None:
    terminal.err(text + "\n")
