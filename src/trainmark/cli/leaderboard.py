"""`trainmark leaderboard`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark import api_trust
from trainmark.cli import terminal
from trainmark.errors import CASE_FAILED, OK, UserError
from trainmark.i18n.speaker import say
from trainmark.trust.archive import SUFFIX

EPILOG = """\
examples:
  trainmark leaderboard results/ -o site/         every bundle in a folder
  trainmark leaderboard a.tmk b.tmk -o site/ --title "Cluster acceptance 2026"
Only verified bundles are listed. Whoever is not beyond doubt faster shares the place. Open site/index.html: it needs no
server. exit code 1: a bundle was left out because it has faults.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundles", nargs="+", type=Path, metavar="DIR|BUNDLE", help="bundles, or folders that hold them"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--title", default="", help="what the site is called")


def call(args: argparse.Namespace) -> int:
    bundles: list[Path] = []
    for path in args.bundles:
        bundles += sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not bundles:
        raise UserError(f"no bundle ({SUFFIX}) in {', '.join(map(str, args.bundles))}; `trainmark pack` makes one")
    found = api_trust.leaderboard(bundles, args.output, title=args.title)
    left_out = [one for one in found if not one.verified]
    for one in left_out:
        terminal.err(f"{one.bundle}: left out: {say(one.faults()[0].reason)}\n")
    terminal.line(f"{args.output / 'index.html'}: {len(found) - len(left_out)} of {len(found)} bundles")
    return CASE_FAILED if left_out else OK
