"""An attempt of one or many nodes, whatever launcher started it: orders to its agents, and how they and it ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from trainmark.agent.ending import complains_of_peer
from trainmark.errors import UserError
from trainmark.launch.protocol import Ended
from trainmark.launch.transport import Transport
from trainmark.reasons import Reason, as_reason, reason
from trainmark.spec.states import JobState
from trainmark.store.files import decode, read_json, write_json
from trainmark.store.rundir import CLAIM, CONTROL, NODE_PLAN, RESULT, STATUS, node_index

# The agent's own exit codes.
_NO_ROOM, _SUPERSEDED = 75, 76
# The others of a failed node may still report a cause of their own, and are then stopped.
PEER_SECONDS = 4.0
# An agent begins within seconds of its start, but Python may come from a slow file server.
_BEGIN_SECONDS = 60.0
# A controller that did not look for longer than this was busy elsewhere, or stopped.
_AWAY_SECONDS = 2.0


def node_dirs(attempt_dir: Path) -> list[Path]:
    """The folders of the attempt's nodes, in node order."""
    found = [path.parent for path in attempt_dir.glob(f"*/{NODE_PLAN}")]
    return sorted(found, key=node_index)


def command(attempt_dir: Path, epoch: int, word: str, why: Reason | str) -> bool:
    """Leaves an order for the agents; False when a controller that replaced this one has already spoken."""
    for folder in node_dirs(attempt_dir):
        standing = read_json(folder / CONTROL)
        if isinstance(standing, dict) and standing.get("epoch", 0) > epoch:
            return False
        write_json(folder / CONTROL, {"epoch": epoch, "command": word, "reason": why})
    return True


class _Result(msgspec.Struct, frozen=True):
    """What decides how a node has ended, of its result.json."""

    token: str
    state: JobState
    reason: dict[str, Any] | str | None = None
    first_failure: dict[str, Any] | None = None


def _result(folder: Path, token: str) -> _Result | None:
    """The result of this attempt's agent; None when there is none, or it was damaged."""
    try:
        found = decode(folder / RESULT, _Result)
    except (FileNotFoundError, UserError):
        return None
    return found if found.token == token else None


def of_node(folder: Path, token: str, code: int | None) -> Ended:
    """How an agent that is gone ended: by its result, else by its exit code (None: nobody saw it)."""
    result = _result(folder, token)
    if result is not None:
        failure = result.first_failure
        lines = None if failure is None else failure.get("last_lines")
        if failure is not None and not (isinstance(lines, list) and all(isinstance(line, str) for line in lines)):
            failure = {**failure, "last_lines": []}
        return Ended(result.state, as_reason(result.reason), failure)
    if code == _NO_ROOM:
        why = reason("disk-full-below", path=str(folder.parent))
        return Ended(JobState.FAILED, why, {"rank": None, "kind": "disk", "last_lines": []})
    if code == _SUPERSEDED:
        return Ended(JobState.LOST, reason("run-taken-over"))
    killed = code is not None and code < 0
    gone = reason("agent-gone-signal", signal=-(code or 0)) if killed else reason("agent-gone")
    return Ended(JobState.LOST, _result_replaced(folder) or gone)


def removed(attempt_dir: Path) -> Ended:
    return Ended(JobState.LOST, reason("folder-removed", path=str(attempt_dir)))


def _result_replaced(folder: Path) -> Reason | None:
    """What took the place of an agent's result, if anything did."""
    file = folder / RESULT
    if file.is_symlink():
        return reason("result-replaced-by-link", path=str(file))
    if file.is_dir():
        return reason("result-replaced-by-folder", path=str(file))
    if file.is_file():
        return reason("result-damaged", path=str(file))
    return reason("result-replaced", path=str(file)) if file.exists() else None


def has_result(folder: Path, token: str) -> bool:
    """Whether the result of a node's agent is here."""
    return _result(folder, token) is not None


def plans_of(attempt_dir: Path, token: str) -> list[tuple[Path, dict[str, Any]]]:
    """The folders of an attempt's nodes with their plans, in node order; none of another attempt's."""
    plans = [(folder, read_json(folder / NODE_PLAN)) for folder in node_dirs(attempt_dir)]
    return [(folder, plan) for folder, plan in plans if isinstance(plan, dict) and plan.get("token") == token]


class LaunchedNode:
    """One agent of an attempt, seen through its folder here."""

    def __init__(self, folder: Path, plan: dict[str, Any], transport: Transport) -> None:
        self.folder, self.plan, self.transport = folder, plan, transport
        self.ended: Ended | None = None

    @property
    def host(self) -> str:
        """The host it got, once one was chosen."""
        host = self.plan["host"]
        if not host:
            found = read_json(self.folder / NODE_PLAN)
            host = found.get("host") if isinstance(found, dict) else ""
        return str(host or f"node {self.plan['node']}")

    def read_result(self) -> None:
        """Ends it by its result, if that is here."""
        if self.ended is None and has_result(self.folder, self.plan["token"]):
            self.ended = of_node(self.folder, self.plan["token"], None)

    def follow(self, now: float, *, asked_to_end: bool) -> None:
        """One look at a node that has not ended: has it, or was it silent for too long?"""
        raise NotImplementedError

    def command(self) -> str:
        """The order that stands for its agent."""
        found = read_json(self.folder / CONTROL)
        return str(found.get("command")) if isinstance(found, dict) else ""


class AgentSilence:
    """For how long an agent has not been heard. Only what the agent itself writes counts: whatever watches over it, or
    prints beside it, may live on when it is frozen."""

    def __init__(self, limit: float, every: float = 0.0) -> None:
        """`every`: seconds between two looks, as far as they are meant to be apart."""
        self._limit = limit
        self._most_away = every + _AWAY_SECONDS
        self._mark: Any = None
        self._heard: float | None = None
        self._looked = 0.0

    def hear(self, mark: Any, now: float) -> None:
        """What it wrote last; the same again is no sign of life."""
        if mark != self._mark or self._heard is None:
            self._mark, self._heard = mark, now

    def too_long(self, now: float) -> float | None:
        """Seconds without a sign of life, once they are too many. Time in which nobody looked is not counted, beyond
        what usually lies between two looks."""
        away, self._looked = now - self._looked, now
        if self._heard is None:
            self._heard = now
        elif away > self._most_away:
            self._heard = min(now, self._heard + away - self._most_away)
        silent = now - self._heard
        return silent if silent > self._limit + (0.0 if self._mark else _BEGIN_SECONDS) else None


def last_sign(folder: Path) -> Any:
    """What changes with every sign of life of the agent that writes into a folder."""
    status = read_json(folder / STATUS)
    return status.get("wall") if isinstance(status, dict) else (folder / CLAIM).exists()


class FolderNode(LaunchedNode):
    """A node whose agent shows by its files alone that it lives: they are all its launcher can see of it."""

    def __init__(self, folder: Path, plan: dict[str, Any], transport: Transport, lost_seconds: float) -> None:
        super().__init__(folder, plan, transport)
        self._silence = AgentSilence(lost_seconds)

    def follow(self, now: float, *, asked_to_end: bool) -> None:
        del asked_to_end  # an agent that obeys ends by itself; one that does not is silent, or is destroyed
        self.transport.fetch()
        self.read_result()
        if self.ended is not None:
            return
        self._silence.hear(last_sign(self.folder), now)
        silent = self._silence.too_long(now)
        if silent is not None:
            self.ended = Ended(JobState.LOST, reason("no-sign-of-life", seconds=silent))


N = TypeVar("N", bound=LaunchedNode)


class AttemptNodes(Generic[N]):
    """All nodes of one attempt: which have ended, in which order, and when the others must be stopped."""

    def __init__(self, nodes: Sequence[N]) -> None:
        self.nodes = list(nodes)
        # Set when an end was ordered: nobody waits long for a silent node then.
        self.asked_to_end = False
        self._order: list[N] = []  # in which they were seen to end
        self._failed_at: float | None = None

    @property
    def over(self) -> bool:
        return all(node.ended for node in self.nodes)

    def follow(self, now: float) -> None:
        """One look at all nodes. Some time after the first failure the others are stopped."""
        for node in self.nodes:
            if node.ended is None:
                node.follow(now, asked_to_end=self.asked_to_end)
            if node.ended is not None and node not in self._order:
                self._order.append(node)
        bad = [node for node in self._order if node.ended and node.ended.state is not JobState.SUCCEEDED]
        if bad and self._failed_at is None:
            self._failed_at = now
        if self._failed_at is not None and not self.asked_to_end and now - self._failed_at > PEER_SECONDS:
            self._stop_others(reason("peer-failed", host=bad[0].host))

    def _stop_others(self, why: Reason) -> None:
        self.asked_to_end = True
        for node in self.nodes:
            if node.ended is None and node.command() not in ("stop", "kill"):
                node.transport.send(_stop_order(node.folder, node.plan["epoch"], why))

    def state(self) -> Ended:
        """One state for all nodes."""
        return self.verdict() if self.over else Ended(JobState.RUNNING)

    def verdict(self) -> Ended:
        """One end for those that have ended."""
        nodes = [*self._order, *(node for node in self.nodes if node not in self._order)]
        return whole([(node.host, node.ended) for node in nodes if node.ended])


def _stop_order(folder: Path, epoch: int, why: Reason) -> dict[str, Any]:
    """An order to a node whose neighbour has failed; of an epoch high enough for its agent to obey."""
    standing = read_json(folder / CONTROL)
    known = standing.get("epoch", 0) if isinstance(standing, dict) else 0
    return {"epoch": max(known, epoch), "command": "stop", "reason": why}


def whole(ended: Sequence[tuple[str, Ended]]) -> Ended:
    """One end for the nodes of an attempt, given with their hosts in the order they were seen to end. Which failed
    first is judged by what they report, then by that order."""
    if all(end.state is JobState.SUCCEEDED for _, end in ended):
        return ended[0][1]
    bad = [(host, end) for host, end in ended if end.state is not JobState.SUCCEEDED]
    host, end = min(bad, key=lambda pair: (_cause(pair[1]), bad.index(pair)))
    if len(ended) == 1:
        return end
    failure = {**end.failure, "host": host} if end.failure else None
    return Ended(end.state, reason("on-host", host=host, why=end.reason), failure)


def _cause(ended: Ended) -> int:
    """Causes before consequences: a lost node explains everything, a lost neighbour nothing."""
    if ended.state is JobState.LOST:
        return 0
    if ended.state is JobState.CANCELLED:
        return 3
    lines = (ended.failure or {}).get("last_lines") or []
    return 2 if complains_of_peer(lines) else 1
