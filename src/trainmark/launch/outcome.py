"""What an attempt's folder tells, whoever started it: orders given to its agents, and how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainmark.agent.ending import complains_of_peer
from trainmark.launch.protocol import Ended
from trainmark.spec.states import JobState
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import CONTROL, NODE_PLAN, RESULT, node_index

# The agent's own exit codes.
_NO_ROOM, _SUPERSEDED = 75, 76
# The others of a failed node may still have something to say, and then must be told to stop.
PEER_SECONDS = 4.0


def node_dirs(attempt_dir: Path) -> list[Path]:
    """The folders of the attempt's nodes, in node order."""
    found = [path.parent for path in attempt_dir.glob(f"*/{NODE_PLAN}")]
    return sorted(found, key=node_index)


def command(attempt_dir: Path, epoch: int, word: str, reason: str) -> bool:
    """Leaves an order for the agents; False when a controller that replaced this one has already spoken."""
    for folder in node_dirs(attempt_dir):
        standing = read_json(folder / CONTROL)
        if isinstance(standing, dict) and standing.get("epoch", 0) > epoch:
            return False
        write_json(folder / CONTROL, {"epoch": epoch, "command": word, "reason": reason})
    return True


def of_node(folder: Path, token: str, code: int | None) -> Ended:
    """How an agent that is gone ended: by its result, else by its exit code (None: nobody saw it)."""
    result = read_json(folder / RESULT)
    if isinstance(result, dict) and result.get("token") == token:
        return Ended(JobState(result["state"]), result.get("reason", ""), result.get("first_failure"))
    if code == _NO_ROOM:
        reason = f"the disk is full: nothing more could be written to {folder.parent}"
        return Ended(JobState.FAILED, reason, {"rank": None, "kind": "disk", "last_lines": []})
    if code == _SUPERSEDED:
        return Ended(JobState.LOST, "another controller had taken the run over before the agent began")
    how = f" (signal {-code})" if code is not None and code < 0 else ""
    return Ended(JobState.LOST, _taken(folder) or f"the agent was gone without a result{how}")


def removed(attempt_dir: Path) -> Ended:
    return Ended(JobState.LOST, f"something in the round removed its own folder, and the result with it: {attempt_dir}")


def _taken(folder: Path) -> str:
    """What took the place of an agent's result, if anything did."""
    file = folder / RESULT
    if file.is_symlink() or (file.exists() and not file.is_file()):
        kind = "a link" if file.is_symlink() else "a folder" if file.is_dir() else "something that is no file"
        return f"something in the round put {kind} where the agent writes its result: {file}"
    return ""


def stop_order(folder: Path, epoch: int, reason: str) -> dict[str, Any]:
    """An order to a node whose neighbour has failed; of an epoch high enough for its agent to obey."""
    standing = read_json(folder / CONTROL)
    known = standing.get("epoch", 0) if isinstance(standing, dict) else 0
    return {"epoch": max(known, epoch), "command": "stop", "reason": reason}


def whole(ended: Sequence[tuple[str, Ended]]) -> Ended:
    """One word for the nodes of an attempt, given with their hosts in the order they were seen to end. Which failed
    first is told by what they said, then by that order."""
    if all(end.state is JobState.SUCCEEDED for _, end in ended):
        return ended[0][1]
    bad = [(host, end) for host, end in ended if end.state is not JobState.SUCCEEDED]
    host, end = min(bad, key=lambda pair: (_cause(pair[1]), bad.index(pair)))
    if len(ended) == 1:
        return end
    failure = {**end.failure, "host": host} if end.failure else None
    return Ended(end.state, f"{host}: {end.reason}", failure)


def _cause(ended: Ended) -> int:
    """Causes before consequences: a lost node explains everything, a lost neighbour nothing."""
    if ended.state is JobState.LOST:
        return 0
    if ended.state is JobState.CANCELLED:
        return 3
    lines = (ended.failure or {}).get("last_lines") or []
    return 2 if complains_of_peer(lines) else 1
