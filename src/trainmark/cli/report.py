"""`trainmark report`: recomputed from the run directory each time."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from trainmark.cli import common
from trainmark.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    common.add_run(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to a file instead of the terminal")


def call(args: argparse.Namespace) -> int:
    from trainmark.report import build, text

    report = build.build(common.find_run(args))
    if args.format == "json":
        content = msgspec.json.format(msgspec.json.encode(report), indent=1).decode() + "\n"
    else:
        content = text.render(report)
    if args.output is None:
        sys.stdout.write(content)
        return 0
    try:
        args.output.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"--output {args.output}: cannot be written: {error.strerror}") from None
    return 0
