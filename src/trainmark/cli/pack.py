"""`trainmark pack`."""

from __future__ import annotations

import argparse
from pathlib import Path

from trainmark import api_trust
from trainmark.cli import common, terminal
from trainmark.cli.key import add_key, passphrase_of
from trainmark.errors import UserError
from trainmark.extras import need
from trainmark.report.show import show

EPILOG = """\
examples:
  trainmark key create                            once: a key to sign with
  trainmark pack last -o result.tmk               the newest run, signed with that key
  trainmark pack RUN1 RUN2 -o delivery.tmk --no-logs --anonymous
  trainmark verify result.tmk                     what the one who gets it types
A bundle holds everything that the figures can be recomputed from. Secrets are searched for and taken out; what was
taken out is listed in it. docs/bundle.md describes the format.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run", nargs="*", metavar="RUN", help="run ids, their unique starts or ends, or folders (default: newest)"
    )
    common.add_runs(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="the bundle to write (NAME.tmk)"
    )
    add_key(parser, "the key to sign with (default: `default`, if there is one)")
    parser.add_argument("--unsigned", action="store_true", help="do not sign; verifying says so")
    parser.add_argument("--no-logs", action="store_true", help="leave out logs: only their digests are packed")
    parser.add_argument("--anonymous", action="store_true", help="take out your user name and home folder")
    parser.add_argument("--json", action="store_true", help="print what was packed as JSON")


def call(args: argparse.Namespace) -> int:
    need("trust", "pack", "cryptography", "zstandard")
    from trainmark.trust import keys

    if args.output.suffix != ".tmk":
        raise UserError(f"-o {args.output}: a bundle's name ends in .tmk")
    key = None if args.unsigned else args.key or keys.DEFAULT
    if key is not None and args.key is None and key not in {one.name for one in keys.listed() if one.own}:
        raise UserError("there is no key to sign with: `trainmark key create` makes one, or `--unsigned` does without")
    made = api_trust.pack(
        args.run or ["last"],
        args.output,
        runs=args.runs,
        key=key,
        passphrase=None if key is None else passphrase_of(key),
        logs=not args.no_logs,
        anonymous=args.anonymous,
    )
    if args.json:
        terminal.out(show(made, "json"))
        return 0
    terminal.line(f"{made.path}: {made.files} files of {', '.join(made.runs)}, {made.bytes:,} bytes")
    terminal.line(f"digest {made.sha256}, signed by {made.signed_by or 'nobody'}")
    if made.removed:
        kinds = ", ".join(f"{count} × {kind}" for kind, count in sorted(made.removed.items()))
        terminal.line(f"taken out and listed in it: {kinds}")
    if made.left_out:
        terminal.line(f"left out: {made.left_out} logs; only their digests are in it")
    terminal.line(f"check it with `trainmark verify {made.path}`")
    return 0
