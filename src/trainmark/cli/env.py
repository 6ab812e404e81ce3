"""`trainmark env`."""

from __future__ import annotations

import argparse
import sys

from trainmark.cli import terminal
from trainmark.cli.list import table

EPILOG = """\
A case that names such a framework finds its environment by itself. A site may name another Python: `python:`, or
`pythons:` by framework.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="create|list|remove")
    create = verbs.add_parser("create", help="make the environment of a framework: pinned packages, shared by all runs")
    create.add_argument("name", nargs="+", help="see `trainmark env list`")
    create.add_argument("--python", metavar="PATH", help="the Python it is made with (default: the one that runs this)")
    verbs.add_parser("list", help="list the environments that can be made, and which are here")
    remove = verbs.add_parser("remove", help="delete the environment of a framework")
    remove.add_argument("name", nargs="+", help="see `trainmark env list`")


def call(args: argparse.Namespace) -> int:
    from trainmark import environments

    if args.what == "list":
        terminal.out(table(environments.rows()))
        return 0
    for name in args.name:  # a slip of the pen in the last name shall not come out after minutes
        environments.named(name)
    for name in args.name:
        if args.what == "create":
            terminal.out(f"{environments.create(name, args.python, _say)}\n")
        else:
            gone = environments.remove(name)
            terminal.tell("".join(f"removed {folder}\n" for folder in gone) or f"{name}: there was none\n")
    return 0


def _say(text: str) -> None:
    terminal.err(text + "\n")
    sys.stderr.flush()
