"""`trainmark init`: a suite and a site with everything explained, ready to run as they are."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark.cli import terminal
from trainmark.errors import UserError

_EXAMPLES = Path(__file__).with_name("examples")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", nargs="?", type=Path, default=Path(), metavar="DIR", help="default: here")


def call(args: argparse.Namespace) -> int:
    files = [args.dir / name for name in ("suite.yaml", "site.yaml")]
    there = [str(file) for file in files if file.exists()]
    if there:
        raise UserError(f"{', '.join(there)}: already there; nothing was written")
    try:
        args.dir.mkdir(parents=True, exist_ok=True)
        for file in files:
            file.write_bytes((_EXAMPLES / file.name).read_bytes())
    except OSError as error:
        raise UserError(f"{args.dir}: cannot be written: {error.strerror}") from None
    names = " and ".join(str(file) for file in files)
    terminal.tell(f"wrote {names}; try `trainmark run {args.dir / 'suite.yaml'} --site {args.dir / 'site.yaml'}`\n")
    return 0
