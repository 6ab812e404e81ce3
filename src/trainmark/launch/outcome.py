"""What an attempt's folder tells, whoever started it: orders given to its agents, and how they ended."""

from __future__ import annotations

from pathlib import Path

from trainmark.launch import Ended
from trainmark.spec.states import JobState
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import CONTROL, NODE_PLAN, RESULT

# The agent's own exit codes.
_NO_ROOM, _SUPERSEDED = 75, 76


def node_dirs(attempt_dir: Path) -> list[Path]:
    """The folders of the attempt's nodes, in node order."""
    found = [path.parent for path in attempt_dir.glob(f"*/{NODE_PLAN}")]
    return sorted(found, key=lambda path: int(path.name.rpartition("noderank")[2]))


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
    return Ended(JobState.LOST, f"the agent was gone without a result{how}")
