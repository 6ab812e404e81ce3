"""What the controller asks of a node: the node plan, the claim on its folder, and the commands in control.json."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from trainmark.agent import linux
from trainmark.agent.files import Log, read_json, to_json, write_all
from trainmark.agent.reasons import Reason, log_text

SCHEMA = 1
CLAIM, NODE_PLAN, CONFIG = "agent.json", "node.json", "config.json"
# The folder of files that a node was handed for the attempt alone: they are not sent back.
HANDED = "secrets"
SPOOL_PREFIX = "trainmark-"  # names of spools outside the attempt's folder begin so
_STALE_SECONDS = 5.0
_DEADLINES = {"start": 120.0, "step": 60.0, "total": 900.0, "stop": 10.0, "lost": 120.0}


class PlanError(Exception):
    """The node plan cannot be read or lacks something: nothing was started."""


class RankPlan:
    """One process to start."""

    __slots__ = ("argv", "env", "local_rank", "rank")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.rank: int = int(raw["rank"])
        self.local_rank: int = int(raw.get("local_rank", 0))
        self.argv: list[str] = [str(word) for word in raw["argv"]]
        self.env: dict[str, str] = _strings(raw.get("env"))


class HelperPlan:
    """A process that the ranks need, such as a server."""

    __slots__ = ("name", "process")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.name: str = str(raw["name"])
        self.process = RankPlan(dict(raw, rank=-1))


class NodePlan:
    """The plan file of one node of one attempt, with its defaults filled in."""

    def __init__(self, raw: dict[str, Any]) -> None:
        if raw.get("schema") != SCHEMA:
            raise PlanError("the node plan has schema %r, this agent speaks %d" % (raw.get("schema"), SCHEMA))
        self.token: str = str(raw["token"])
        if not self.token.isalnum():
            raise PlanError("the token %r is not made of letters and digits" % self.token)
        self.key: str = str(raw.get("key") or "")
        self.epoch: int = int(raw.get("epoch", 1))
        self.lease: str | None = raw.get("lease")
        self.host: str = str(raw.get("host") or os.uname().nodename)
        self.dir: str = os.path.abspath(raw["dir"])
        self.spool: str = _spool(raw.get("spool"), self.dir, self.key or self.token)
        self.ports: list[int] = [int(port) for port in raw.get("ports") or ()]
        self.config: dict[str, Any] = raw.get("config") or {}
        self.env: dict[str, str] = _strings(raw.get("env"))
        self.unset: list[str] = list(raw.get("unset") or ())
        self.cwd: str | None = raw.get("cwd")  # None: each rank has a folder of its own
        self.files: dict[str, str] = _strings(raw.get("files"))  # written into the folder before ranks start
        self.path: list[str] = list(raw.get("path") or ())
        self.ranks = [RankPlan(rank) for rank in raw["ranks"]]
        self.helpers = [HelperPlan(helper) for helper in raw.get("helpers") or ()]
        self.deadlines: dict[str, float] = dict(_DEADLINES, **(raw.get("deadlines") or {}))
        self.probe: bool = bool(raw.get("probe", True))
        self.open: bool = bool(raw.get("open", False))  # a command starts the ranks, not the agent
        self.sweep: bool = bool(raw.get("sweep", False))  # ... and they are not children of this agent
        self.pattern: dict[str, Any] | None = raw.get("pattern")  # steps are read from the output instead
        self.sample_seconds: float = float(raw.get("sample_seconds") or 0.0)
        self.tuning: dict[str, Any] = raw.get("tuning") or {}
        self.containment: str = raw.get("containment") or "auto"
        self.cpus: int | None = raw.get("cpus")
        self.memory: int | None = raw.get("memory")  # bytes a rank may use; 0: its share of what is free
        self.warnings: list[Reason | str] = list(raw.get("warnings") or ())
        self.active: str | None = raw.get("active")
        self.board: dict[str, Any] | None = raw.get("board")  # who tells the power of the machine
        self.device: dict[str, Any] = raw.get("device") or {"vendor": "cpu", "visible": None}

    def file(self, name: str) -> str:
        return os.path.join(self.dir, name)


def _strings(raw: dict[str, Any] | None) -> dict[str, str]:
    return {str(name): str(value) for name, value in (raw or {}).items()}


def _spool(asked: str | None, folder: str, secret: str) -> str:
    """A spool elsewhere is a folder of the attempt's own inside the one asked for, so that it can be removed. It has
    the same name on every node, one that nobody can guess: the folder asked for may be everybody's."""
    if not asked:
        return os.path.join(folder, "spool")
    import hashlib

    return os.path.join(asked, SPOOL_PREFIX + hashlib.sha256(("spool " + secret).encode()).hexdigest()[:32])


def read_plan(path: str) -> NodePlan:
    try:
        with open(path, "rb") as file:
            raw = json.load(file)
        return NodePlan(raw)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise PlanError("the node plan %s cannot be used: %s" % (path, error)) from error
    except KeyError as error:
        raise PlanError("the node plan %s has no %s" % (path, error)) from error


def claim(plan: NodePlan) -> bool:
    """Takes the attempt's folder for this process; False when another agent has it."""
    pid = os.getpid()
    record = {
        "schema": SCHEMA,
        "pid": pid,
        "start_ticks": linux.Proc().start_ticks(pid),
        "boot_id": linux.boot_id(),
        "host": plan.host,
        "token": plan.token,
        "epoch": plan.epoch,
    }
    os.makedirs(plan.dir, exist_ok=True)
    try:
        descriptor = os.open(plan.file(CLAIM), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return False
    try:
        write_all(descriptor, (to_json(record) + "\n").encode())
    finally:
        os.close(descriptor)
    return True


def outranked(plan: NodePlan) -> bool:
    """Whether a controller with a higher epoch owns the run. Checked after the claim: a controller that takes over
    raises the lease first and looks for claims second, so one of the two always sees the other."""
    lease = read_json(plan.lease) if plan.lease else None
    return isinstance(lease, dict) and isinstance(lease.get("epoch"), int) and lease["epoch"] > plan.epoch


class Command(NamedTuple):
    """`stop` or `kill`, and why."""

    name: str
    reason: Reason | str


class Control:
    """control.json, read when it changes. Commands of an epoch below the highest one seen are ignored."""

    def __init__(self, path: str, epoch: int, log: Log) -> None:
        self._path = path
        self._log = log
        self._seen: tuple[int, int, int] | None = None
        self._stale_at: float | None = None
        self.epoch = epoch

    def look(self, now: float) -> Command | None:
        """A new command to obey, or None."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        mark = (found.st_mtime_ns, found.st_ino, found.st_size)
        if mark == self._seen:
            return None
        record = read_json(self._path)
        if not isinstance(record, dict) or not isinstance(record.get("epoch"), int):
            return None  # being written; read again later
        self._seen = mark
        return self._judge(record["epoch"], str(record.get("command")), record.get("reason") or "", now)

    def _judge(self, epoch: int, name: str, why: Reason | str, now: float) -> Command | None:
        if epoch < self.epoch:
            self._stale_at = now
            self._log.line("ignored %r of epoch %d: epoch %d owns the run" % (name, epoch, self.epoch))
            return None
        self._stale_at = None
        self.epoch = epoch
        self._log.line("control: %s, epoch %d %s" % (name, epoch, log_text(why)))
        return Command(name, why) if name in ("stop", "kill") else None

    def stale(self, now: float) -> bool:
        """Whether a command of a lower epoch came just now: the signal that came with it is ignored, too."""
        return self._stale_at is not None and now - self._stale_at < _STALE_SECONDS
