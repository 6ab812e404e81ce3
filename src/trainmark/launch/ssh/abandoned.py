"""Folders of attempts on hosts that were given up: noted beside the runs, cleared when the host is reached again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.ssh.plan import REACH
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import LEASE

if TYPE_CHECKING:
    from trainmark.launch.ssh.connection import Connection
    from trainmark.launch.ssh.connections import Connections

_NOTES = ".left-on-hosts"
_CLEAR_SECONDS = 20.0
# An owner shows every two seconds that it lives; its file server may be slow to tell.
_YOUNG_SECONDS = 60.0


class AbandonedFolder(msgspec.Struct, frozen=True):
    """An attempt's folder on a host. Its round has its verdict: nobody waits for it."""

    run: str
    reach: SshTarget
    address: dict[str, Any]
    file: Path


def note(folder: Path, plan: dict[str, Any], address: dict[str, Any]) -> None:
    """`folder` is RUNS/run/case/round/attempt/node."""
    notes = folder.parents[4] / _NOTES
    notes.mkdir(exist_ok=True)
    content = {"schema": 1, "run": folder.parents[3].name, "reach": plan[REACH]["ssh"], "address": address}
    write_json(notes / f"{plan['token']}-{folder.name}.json", content)


def of(run_dir: Path) -> list[AbandonedFolder]:
    return [one for one in _read(run_dir.parent) if one.run == run_dir.name]


def near(run_dir: Path, links: Sequence[Connection]) -> list[tuple[Connection, AbandonedFolder]]:
    """What runs have left on the hosts at hand. Runs that are alive see to it themselves."""
    by_host = {_place(link.reach): link for link in links}
    found = [(by_host[_place(one.reach)], one) for one in _read(run_dir.parent) if _place(one.reach) in by_host]
    return [(link, one) for link, one in found if one.run == run_dir.name or not _alive(run_dir.parent / one.run)]


def clear(connections: Connections, left: Sequence[tuple[Connection, AbandonedFolder]]) -> None:
    """Ends what may still run there, and removes its files; the note goes when the host has said that it did."""
    replies = []
    for link, one in left:
        link.ask("destroy", **one.address)
        replies.append((one, link.ask("forget", dirs=[one.address["dir"]])))
    connections.wait((reply for _, reply in replies), _CLEAR_SECONDS)
    for one, reply in replies:
        if reply.ok:
            one.file.unlink(missing_ok=True)


def _read(runs: Path) -> list[AbandonedFolder]:
    found = []
    for file in sorted((runs / _NOTES).glob("*.json")):
        content = read_json(file)
        if isinstance(content, dict):
            reach = msgspec.convert(content["reach"], SshTarget)
            found.append(AbandonedFolder(content["run"], reach, content["address"], file))
    return found


def _place(reach: SshTarget) -> tuple[Any, ...]:
    """How patient one is with a host does not make it another."""
    return reach.host, reach.user, reach.port, reach.config, reach.work_dir


def _alive(run_dir: Path) -> bool:
    lease = read_json(run_dir / LEASE)
    if not isinstance(lease, dict) or lease.get("released"):
        return False
    return time.time() - (run_dir / LEASE).stat().st_mtime < _YOUNG_SECONDS
