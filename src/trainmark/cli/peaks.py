"""`trainmark peaks`: what a site can reach, measured once and kept with it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import msgspec

from trainmark.cli import common, drive, terminal
from trainmark.errors import OK, UserError
from trainmark.run import planning, session
from trainmark.spec import peaks
from trainmark.spec import site as sites
from trainmark.spec import suite as suites
from trainmark.spec.site import Site
from trainmark.store.files import write_json
from trainmark.store.rundir import RunDir

EPILOG = """\
examples:
  trainmark peaks                          this machine
  trainmark peaks --site my.yaml --nproc 1,8 --device A100
Measured: matrix products per number format (10 s each), memory and host-device bandwidth, and where there are
several ranks, collectives over message sizes within and between hosts. `run` and `report` use what is kept.
"""
PRESETS = ("smoke", "quick", "full")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="vendor or model (default: cpu)")
    parser.add_argument(
        "--nproc", default="1", metavar="N,…", help="ranks per host, as runs will have them (default: 1)"
    )
    parser.add_argument("--preset", choices=PRESETS, default="quick", help="how long (default: quick)")
    parser.add_argument("--show", action="store_true", help="print what is kept, measure nothing")
    common.add_seed(parser)
    common.add_runs(parser)
    common.add_no_check(parser)
    drive.add_options(parser)


def call(args: argparse.Namespace) -> int:
    site = common.load_site(args)
    file = sites.peaks_file(args.site, os.uname().nodename)
    if args.show:
        found = peaks.load(file)
        if found is None:
            raise UserError(f"{file}: nothing is kept yet; `trainmark peaks` measures it")
        return _print(found, args)
    _check_writable(file)
    plan = planning.plan_suite(_suite(site, args), site, {}, args.seed)
    plan = msgspec.structs.replace(plan, kind="peaks", peaks_file=str(file.absolute()))
    common.check(plan, args)
    return drive.drive(drive.create(plan, args), plan, args)


def _check_writable(file: Path) -> None:
    """Before minutes are spent on what could not be kept."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{file.parent}: cannot be made: {error.strerror}") from None
    if not os.access(file.parent, os.W_OK):
        raise UserError(
            f"{file.parent}: cannot be written, so peaks cannot be kept there; copy the site's file elsewhere"
        )


def _suite(site: Site, args: argparse.Namespace) -> suites.Loaded:
    counts = []
    for word in args.nproc.split(","):
        if not word.strip().isdigit() or not 1 <= int(word) <= 1024:
            raise UserError(f"--nproc: found {word!r}, allowed are whole numbers from 1, separated by commas")
        counts.append(int(word))
    nodes = len(site.hosts)
    names = [f"{sites.PEAKS}:pytorch:{args.device}:{nodes}:{count}:1" for count in dict.fromkeys(counts)]
    most = max(2, *counts)
    names.append(f"collectives:pytorch:{args.device}:1:{most}:1")
    if nodes > 1:
        names.append(f"collectives:pytorch:{args.device}:{nodes}:1:1")
    return suites.named(sites.PEAKS, names, args.preset)


def show(run: RunDir, args: argparse.Namespace) -> int:
    """Keeps what was measured with its site."""
    from trainmark.report.make import peaks as reading

    manifest = run.manifest()
    found = reading.of_run(run, manifest, session.state_of(run, manifest.plan))
    if not found.matmul:
        terminal.err(f"trainmark peaks: nothing is kept, nothing could be measured: {'; '.join(found.missing)}\n")
        return OK
    file = manifest.plan.peaks_file
    if file:
        write_json(Path(file), found, durable=True)
    _print(found, args)
    if file and not args.json:
        terminal.tell(f"\nkept in {file}; `trainmark report {run.id} --format html` draws the roof\n")
    return OK


def _print(found: peaks.Peaks, args: argparse.Namespace) -> int:
    from trainmark.report.show import show

    terminal.out(show(found, "json-line") if args.json else "\n" + show(found, "text", args.language))
    return 0
