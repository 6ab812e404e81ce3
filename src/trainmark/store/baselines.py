"""Which run others are compared with: one for each set of hosts, since speeds of one machine say nothing of another."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from trainmark.errors import UserError
from trainmark.store.files import decode, write_json
from trainmark.store.rundir import Manifest

NAME = ".baselines.json"


class Baseline(msgspec.Struct, frozen=True):
    run: str
    hosts: list[str]
    suite: str
    # Nanoseconds since 1970.
    set_at: int


def hosts_of(manifest: Manifest) -> list[str]:
    return sorted({node.host for case in manifest.plan.cases for node in case.nodes})


def read(runs: Path) -> list[Baseline]:
    """All baselines of a folder of runs."""
    file = runs / NAME
    try:
        return decode(file, list[Baseline])
    except FileNotFoundError:
        return []
    except UserError as error:
        raise UserError(f"{error}; or remove it and set the baselines again") from None


def put(runs: Path, manifest: Manifest) -> Baseline:
    """Makes a run the baseline of its hosts and its suite, in place of an earlier one."""
    made = Baseline(manifest.run, hosts_of(manifest), manifest.plan.suite, time.time_ns())
    others = [one for one in read(runs) if (one.hosts, one.suite) != (made.hosts, made.suite)]
    try:
        write_json(runs / NAME, [*others, made])
    except OSError as error:
        raise UserError(f"{runs / NAME}: cannot be written: {error.strerror}") from None
    return made


def find(runs: Path, manifest: Manifest) -> Baseline:
    """The baseline for a run: of its hosts, and of its suite where there are several."""
    known, hosts = read(runs), hosts_of(manifest)
    own = [one for one in known if one.hosts == hosts]
    best = [one for one in own if one.suite == manifest.plan.suite] or own
    if len(best) == 1:
        return best[0]
    names = ", ".join(host for host in hosts if host) or "nodes that a scheduler chooses"
    if best:
        suites = ", ".join(f"`{one.suite}`" for one in best)
        raise UserError(f"{names} has baselines of {suites} and none of `{manifest.plan.suite}`; name a run instead")
    others = "; ".join(f"{', '.join(one.hosts)} has {one.run}" for one in known)
    more = f" A baseline of another site says nothing here: {others}." if known else ""
    raise UserError(f"no baseline for {names}.{more} `trainmark baseline set RUN` makes one")
