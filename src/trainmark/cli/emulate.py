"""`trainmark emulate modelarts`."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from trainmark.cli import terminal
from trainmark.errors import OK, UserError

EPILOG = """\
examples:
  trainmark emulate modelarts --dir emu                              serve until Ctrl-C; emu/site.yaml is a site for it
  trainmark run smoke --site emu/site.yaml                           in another terminal
  trainmark emulate modelarts --dir emu --fail 503:0.1 --drop 0.05   every tenth call fails, every twentieth breaks off
"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="modelarts")
    made = verbs.add_parser("modelarts", help="ModelArts v2 training jobs and OBS on loopback, which really run jobs")
    made.add_argument("--dir", type=Path, required=True, metavar="DIR", help="where objects, keys and a site are kept")
    made.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: any that is free)")
    made.add_argument("--nodes", type=int, default=4, help="how many workers may run at once (default: 4)")
    made.add_argument("--upload-seconds", type=float, default=5.0, help="how often logs and output go up (default: 5)")
    made.add_argument("--quota", type=int, default=0, metavar="NODES", help="refuse jobs that would use more at once")
    faults = made.add_argument_group("what goes wrong on purpose")
    faults.add_argument(
        "--fail",
        action="append",
        default=[],
        metavar="STATUS:SHARE",
        help="so many calls fail, as in 503:0.1 or 429:0.2",
    )
    faults.add_argument("--drop", type=float, default=0.0, metavar="SHARE", help="so many connections break")
    faults.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="every answer takes so much longer")
    faults.add_argument("--lose-creates", type=int, default=0, metavar="N", help="the first N jobs are made unanswered")
    faults.add_argument(
        "--lose-node", metavar="WORKER:SECONDS", help="a worker is lost so long after the start of a job"
    )
    faults.add_argument("--hide", default="", metavar="NAME", help="output with NAME in its path never arrives")
    faults.add_argument("--seed", type=int, default=1, help="of all chances (default: 1)")


def call(args: argparse.Namespace) -> int:
    from trainmark.emulate.modelarts.faults import Faults
    from trainmark.emulate.modelarts.server import Emulator, Options
    from trainmark.emulate.modelarts.site_file import write

    faults = Faults(
        fail=dict(_failing(text) for text in args.fail),
        drop=_share(args.drop, "--drop"),
        slow=args.slow,
        lose_creates=args.lose_creates,
        lose_node=_lost(args.lose_node) if args.lose_node else None,
        hide=args.hide,
        seed=args.seed,
    )
    if args.nodes < 1 or args.upload_seconds <= 0:
        raise UserError("--nodes and --upload-seconds: allowed is more than 0")
    emulator = Emulator(args.dir, args.port, Options(args.nodes, args.upload_seconds, args.quota, faults))
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with emulator:
        site = write(emulator)
        terminal.out(f"emulated ModelArts and OBS at {emulator.url}; Ctrl-C ends it\n")
        terminal.out(f"try: trainmark run smoke --site {site}\n")
        ended.wait()
    return OK


def _failing(text: str) -> tuple[int, float]:
    status, _, share = text.partition(":")
    if not status.isdigit() or not 400 <= int(status) <= 599:
        raise UserError(f"--fail {text}: allowed is STATUS:SHARE, as in 503:0.1")
    return int(status), _share(share, "--fail")


def _share(text: str | float, option: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UserError(f"{option}: found {text!r}, allowed is 0 to 1")
    return share


def _lost(text: str) -> tuple[int, float]:
    worker, _, seconds = text.partition(":")
    try:
        return int(worker), float(seconds)
    except ValueError:
        raise UserError(f"--lose-node {text}: allowed is WORKER:SECONDS, as in 1:20") from None
