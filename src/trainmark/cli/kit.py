"""`trainmark kit`."""

from __future__ import annotations

import argparse
import platform
from pathlib import Path

from trainmark.cli import terminal

EPILOG = """\
examples:
  trainmark kit -o trainmark-kit-x86_64.tar.gz --wheels      for machines without a network
  trainmark kit -o kit.tar.gz --arch aarch64 --site s.yaml   for another architecture, with a site in it

Where it is unpacked, `./trainmark-kit run` makes an environment in its folder once and runs the suite.
"""
_ARCHITECTURES = ("x86_64", "aarch64")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the archive, a .tar.gz")
    parser.add_argument("--suite", default="smoke", help="what it runs: a built-in suite or a file (default: smoke)")
    parser.add_argument("--site", type=Path, metavar="FILE", help="where it runs (default: where it is unpacked)")
    parser.add_argument("--wheels", action="store_true", help="put all packages in, for machines without a network")
    parser.add_argument(
        "--extra",
        action="append",
        metavar="NAME",
        help="an extra of trainmark that it needs (default: torch, if the suite has PyTorch)",
    )
    parser.add_argument(
        "--arch",
        choices=_ARCHITECTURES,
        default=platform.machine() if platform.machine() in _ARCHITECTURES else _ARCHITECTURES[0],
        help="of the machines it is for (default: that of this one)",
    )


def call(args: argparse.Namespace) -> int:
    from trainmark import kit

    made = kit.make(args.output, args.suite, args.site, args.arch, args.extra, wheels=args.wheels)
    terminal.line(f"{args.output}: {made.files} files, {made.size} bytes, sha256 {made.sha256}")
    return 0
