"""The devices of a round: what there is, before ranks start; and a process that reads them while ranks run.

A vendor's library or tool that hangs hangs that process, and nothing else.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from typing import Any, Mapping

from trainmark.agent import linux
from trainmark.agent.contain.choose import Containment
from trainmark.agent.files import Log
from trainmark.agent.node_plan import RankPlan
from trainmark.agent.placeholders import AGENT, agent_command
from trainmark.agent.reasons import Reason, ReasonedError, log_text, reason
from trainmark.agent.wakeup import forget_signals
from trainmark.devices.node_side import visible
from trainmark.devices.node_side.tools import SECONDS
from trainmark.devices.node_side.watch import NODE_HALVES, NOW

_LAST_SECONDS = 2.0
_FIRST_SECONDS = SECONDS + 5.0  # a tool has its own deadline, and says so


class DeviceError(ReasonedError):
    """The devices that ranks need are not there."""

    kind = "device"


class DeviceWatch:
    """Starts the process, keeps its newest record. `facts` is what `detect` found, None until it has answered."""

    def __init__(
        self, vendor: str, every: float, board: Mapping[str, Any] | None, containment: Containment, log: Log
    ) -> None:
        """`board`: who tells the power of the machine, and how often to ask."""
        self._log = log
        self._buffer = b""
        self._records: list[dict[str, Any]] = []
        self._problem: Reason | None = None
        self.facts: dict[str, Any] | None = None
        agent = os.getpid()
        power = [repr(float(board["every"])), *board["argv"]] if board else []

        def enter() -> None:
            forget_signals()
            linux.die_with_parent(signal.SIGKILL)
            if containment.guarded and os.getppid() != agent:
                os._exit(127)
            containment.enter()

        self._process = subprocess.Popen(
            agent_command([AGENT, "watch-devices", vendor, repr(every or 1.0), *power]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=enter,
        )
        assert self._process.stdout is not None  # noqa: S101
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def first(self) -> dict[str, Any]:
        """What there is; DeviceError when nobody can tell in time."""
        deadline = time.monotonic() + _FIRST_SECONDS
        while self.facts is None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._output], [], [], left)[0]:
                raise DeviceError(reason("device-tool-hangs", tool="detect", seconds=_FIRST_SECONDS))
            if not self._read():
                raise DeviceError(reason("device-tool-failed", tool="detect", said="it ended"))
        return self.facts

    def records(self) -> list[dict[str, Any]]:
        """The records since the last call."""
        self._read()
        found, self._records = self._records, []
        return found

    def last(self) -> list[dict[str, Any]]:
        """The records since the last call, with one that is made now if that can be had soon."""
        asked, found = time.monotonic_ns(), self.records()
        try:
            os.kill(self.pid, NOW)
        except ProcessLookupError:
            return found
        deadline = time.monotonic() + _LAST_SECONDS
        while not any(record.get("devices_t", 0) >= asked for record in found):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._output], [], [], left)[0] or not self._read():
                break
            found += self.records()
        return found + self.records()

    def _read(self) -> bool:
        """Takes in what was written; False at the end of it."""
        while True:
            try:
                data = os.read(self._output, 65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            self._buffer += data
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                self._take(json.loads(line))

    def _take(self, record: dict[str, Any]) -> None:
        if "facts" in record:
            self.facts = record["facts"]
            return
        wrong = record.pop("problem", None)
        if wrong and wrong != self._problem:
            self._log.line("devices: %s" % log_text(wrong))
        self._problem = wrong
        self._records.append(record)

    def warnings(self) -> list[Reason]:
        """What kept the last reading from being whole."""
        return [self._problem] if self._problem else []

    def end(self) -> None:
        """Kills it and what it has started."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError, PermissionError):
            pass  # gone already
        self._process.returncode = 0  # nothing is left for Popen to wait for
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdout.close()


def is_watched(vendor: str) -> bool:
    return vendor in NODE_HALVES and vendor != "apple"


def wanted(ranks: list[RankPlan], variable: str, inherited: str | None) -> tuple[int, str | None]:
    """How many devices ranks get, and of which. A plan may say itself which each of them gets, and more than one."""
    said = ",".join(rank.env[variable] for rank in ranks if variable in rank.env)
    return (len(visible.chosen(said) or ()), said) if said else (len(ranks), inherited)


def used(facts: Mapping[str, Any], ranks: int, inherited: str | None) -> list[int]:
    """The indices of the devices that ranks get."""
    devices = facts.get("devices") or []
    return [int(one["index"]) for one in visible.taken(devices, visible.chosen(inherited), ranks) if "index" in one]


def check(facts: Mapping[str, Any], vendor: str, ranks: int, inherited: str | None) -> list[Reason]:
    """Warnings about the devices; DeviceError where ranks would not have them."""
    wrong = visible.wrong(facts, vendor, ranks, inherited)
    if wrong is None:
        return []
    if visible.is_grave(wrong):
        raise DeviceError(wrong)
    return [wrong]
