"""What a running job measures: samples of its nodes, line by line, and how far its rounds are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.run import control
from trainmark.spec.states import JobState
from trainmark.store.files import decode_line
from trainmark.store.rundir import SAMPLES, RunDir, node_files
from trainmark.web.service import logs


def following(run: RunDir, attempt: str, seen: dict[int, int]) -> tuple[str, list[dict[str, Any]]]:
    """The newest attempt's name, and the samples that its nodes added since. `seen` is by node; it begins again with
    another attempt."""
    name, files = _newest(run)
    if not name:
        return attempt, []
    if name != attempt:
        seen.clear()
    found = []
    for piece in logs.following(files, seen, final=False):
        host = files[piece.rank].parent.name.rpartition("_noderank")[0]
        for line in piece.text.splitlines():
            one = decode_line(line.encode())
            if isinstance(one, dict) and "t" in one:  # not the first line, which tells the units
                found.append({"host": host, "attempt": name, "sample": one})
    return name, found


def end(run: RunDir) -> tuple[str, dict[int, int]]:
    """From where `following` tells only what comes: the newest attempt's name, and how much its nodes have written."""
    name, files = _newest(run)
    return name, {node: file.stat().st_size for node, file in files.items()}


def _newest(run: RunDir) -> tuple[str, dict[int, Path]]:
    """The newest attempt's name, and the files of its nodes; neither before there is one."""
    try:
        newest = control.newest_attempt(run)
    except UserError:
        newest = None
    if newest is None:
        return "", {}
    return "/".join(newest.parts[-3:]), dict(enumerate(node_files(newest, SAMPLES)))


def progress(run: RunDir) -> list[dict[str, Any]]:
    try:
        status = control.status(run)
    except UserError:
        return []
    return [
        {"case": one.case, "round": one.round, "attempt": one.attempt, "unit": one.unit, "progress": one.progress}
        for one in status.rounds
        if one.state is JobState.RUNNING
    ]
