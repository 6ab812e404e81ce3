"""`trainmark run` of a suite that asks for the largest batches (`batch: max`)."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from trainmark.cli import common, drive, terminal
from trainmark.errors import STOPPED
from trainmark.run.stop import StopSwitch, on_signals

if TYPE_CHECKING:
    from trainmark.reasons import Reason
    from trainmark.run.campaign import Campaign
    from trainmark.spec.site import Site
    from trainmark.spec.suite import Loaded


def begin(loaded: Loaded, site: Site, args: argparse.Namespace) -> int:
    from trainmark.campaigns import fit
    from trainmark.campaigns.asked import asked_suite

    suite = asked_suite(loaded, site, common.overrides(args), args.seed, args.site)
    made = fit.create(suite, args.runs, check=not args.no_check, command=drive.command(args))
    return go_on(made, args)


def go_on(made: Campaign, args: argparse.Namespace) -> int:
    """Finds the batches, then drives the run with them."""
    from trainmark.campaigns import fit

    switch = StopSwitch()
    with on_signals(switch):
        run = fit.go(made, _note, switch)
    if run is None:
        terminal.err(f"trainmark run: stopped; `trainmark resume {made.name}` goes on\n")
        return STOPPED
    return drive.drive(run, run.manifest().plan, args)


def _note(news: Reason) -> None:
    from trainmark.i18n.speaker import say

    terminal.err(f"{say(news)}\n")
