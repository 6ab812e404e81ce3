"""`trainmark import`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from trainmark import api_trust
from trainmark.cli import common, terminal
from trainmark.errors import UserError
from trainmark.interop.protocol import REGISTRY, Format, Option, formats
from trainmark.interop.reading.records import Verbatim
from trainmark.store.files import write_whole
from trainmark.store.rundir import RunDir

EPILOG = """\
The same source imported twice is one run. The files themselves are kept in the run's folder under `raw/`.
"""

_TYPES = {"int": int, "float": float, "str": str}


def configure(parser: argparse.ArgumentParser) -> None:
    parsers = add_formats(parser)
    bundle = parsers.add_parser("bundle", help="runs of a bundle that `trainmark pack` made", allow_abbrev=False)
    bundle.add_argument("path", type=Path, metavar="BUNDLE", help="it is verified first; one with faults is refused")
    common.add_runs(bundle)
    config = parsers.add_parser(
        "modelarts-config",
        help="ais-bench: config.sh, config.json and modelarts_config.py → a site and a suite (never run)",
        usage="%(prog)s DIR -o DIR",
        allow_abbrev=False,
    )
    config.add_argument("path", type=Path, metavar="DIR", help="ais-bench's folder code/ or code/config/")
    config.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="for site, suite and a file of keys, mode 0600"
    )
    for format_parser, form in format_parsers(parsers, "import_options"):
        format_parser.add_argument("path", type=Path, metavar="PATH", help="a file or a folder")
        common.add_runs(format_parser)
        format_parser.add_argument("--json", action="store_true", help="print JSON, in the format's own shape if any")
        format_parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR", help="also write what the format's own tool would have written"
        )
        add_options(format_parser, form.import_options or ())


def add_formats(parser: argparse.ArgumentParser) -> Any:
    """What holds the parsers of all formats."""
    return parser.add_subparsers(dest="format", required=True, metavar="FORMAT")


def format_parsers(parsers: Any, which: str) -> list[tuple[argparse.ArgumentParser, Format]]:
    """A parser for each format that can do it."""
    return [
        (parsers.add_parser(name, help=form.summary, description=form.summary, allow_abbrev=False), form)
        for name, form in formats()
        if getattr(form, which) is not None
    ]


def add_options(parser: argparse.ArgumentParser, options: tuple[Option, ...]) -> None:
    for option in options:
        flag, help_text = f"--{option.name.replace('_', '-')}", option.help
        if option.type == "bool":
            parser.add_argument(flag, dest=option.name, action="store_true", help=help_text)
            continue
        shown = help_text if option.default is None else f"{help_text} (default: {option.default})"
        many = len(option.choices) > 5
        if many:
            shown += f"; one of {', '.join(option.choices)}"
        parser.add_argument(
            flag,
            dest=option.name,
            type=_TYPES[option.type],
            default=option.default,
            choices=option.choices or None,
            metavar=None if option.choices and not many else "N" if option.type == "int" else "NAME",
            help=shown,
        )


def options_of(args: argparse.Namespace, options: tuple[Option, ...] | None) -> dict[str, Any]:
    return {option.name: getattr(args, option.name) for option in options or ()}


def call(args: argparse.Namespace) -> int:
    if args.format == "bundle":
        for run in api_trust.unpack(args.path, runs=args.runs):
            terminal.line(f"kept in {run.path}")
        return 0
    if args.format == "modelarts-config":
        return _config(args.path, args.output)
    from trainmark.interop.reading.importing import import_results
    from trainmark.report import build
    from trainmark.report.make import cache

    form: Format = REGISTRY.get(args.format, "import")
    if args.output is not None:
        _check(args.output)
    ends = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ends:
        signal.signal(number, _leave)
    try:
        options = options_of(args, form.import_options)
        brought = import_results(args.format, args.path, args.runs, options, _Progress())
    finally:
        for number in ends:
            signal.signal(number, signal.SIG_DFL)
    if brought.rounds >= cache.LEAST_ROUNDS:
        build.build(RunDir(Path(brought.dir).resolve()))  # so that the first comparison need not
    if args.output is not None:
        for one in brought.verbatim:
            _write(args.output, one)
    if args.json:
        own: Any = {one.name: one.content for one in brought.verbatim} or brought
        if len(brought.verbatim) == 1:
            own = brought.verbatim[0].content
        terminal.json(own, indent=4)
        return 0
    imported = brought.imported
    how = "was already imported as" if brought.again else "is now"
    if brought.run:
        terminal.line(f"{imported.source}: {brought.rounds} round(s) of {brought.cases} case(s) {how} {brought.run}")
    counts = imported.counts
    if counts.get("lines"):
        terminal.line(
            f"lines {counts['lines']} = {counts['taken']} taken + {counts['other']} other + {counts['flagged']} flagged"
        )
    for example in imported.examples:
        terminal.line(f"flagged: {example}")
    for what in imported.missing:
        terminal.line(f"not told by the source: {what}")
    for one in brought.verbatim:
        terminal.out(one.text)
    if brought.run:
        terminal.line(f"kept in {brought.dir}")
    return 0


def _config(folder: Path, output: Path) -> int:
    """A configuration with keys in it: nothing of it is kept but what is written here."""
    from trainmark.interop.aisbench import config

    _check(output)
    made = config.convert(folder)
    for path in config.write(made, output):
        terminal.line(path)
    for one in made.left:
        terminal.line(f"not taken over: {one}")
    return 0


def _leave(number: int, _frame: Any) -> None:
    """As Ctrl-C does: what is half done is thrown away on the way out."""
    raise SystemExit(128 + number)


def _check(folder: Path) -> None:
    """Before anything is imported: a folder that can be written to, or made."""
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise UserError(f"--output {folder}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--output {folder}: {there} cannot be written to")


def _write(folder: Path, one: Verbatim) -> None:
    file = folder / one.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        data = msgspec.json.encode(one.content) if one.name.endswith(".json") else one.text.encode()
        write_whole(file, data)
    except OSError as error:
        raise UserError(f"--output {file}: cannot be written: {error.strerror}") from None


class _Progress:
    """On a terminal, every two seconds, how far a long import is."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 2

    def __call__(self, files: int, rounds: int) -> None:
        if sys.stderr.isatty() and time.monotonic() > self._next:
            self._next = time.monotonic() + 2
            terminal.err(f"{files} file(s) found, {rounds} round(s) read\n")
