"""Ranks that the agent did not start: a command of the user did, and their probes register by their spool files.

The processes below that command also append lines to the file `hello` in the spool: who they are and how far they came.
"""

from __future__ import annotations

import os
from typing import Any

from trainmark.agent.ending import Ending
from trainmark.agent.events.pattern import PatternReader
from trainmark.agent.events.reader import EventStream, open_plain
from trainmark.agent.node_plan import NodePlan
from trainmark.agent.ranks import Rank
from trainmark.agent.reasons import Reason, reason

HELLO = "hello"
_MOST = 1 << 20  # bytes of it that are read
_CURE = reason("pattern-or-probe")


class ExternalRank:
    """A rank below the command: counted as running while the command runs; only its events are known."""

    pid = None

    def __init__(self, rank: int, command: Rank) -> None:
        self.rank = rank
        self._command = command

    @property
    def running(self) -> bool:
        return self._command.running

    def record(self, stream: EventStream) -> dict[str, Any]:
        unknown = dict.fromkeys(("pid", "exit", "signal", "cpu_s", "max_rss_bytes"))
        return dict(unknown, rank=self.rank, steps=stream.steps, samples=stream.samples)


def present(started: list[Rank], streams: dict[int, EventStream]) -> list[Rank | ExternalRank]:
    """The started processes, and those that wrote events without having been started here."""
    known = {rank.rank for rank in started}
    strangers = sorted(number for number in streams if number not in known)
    own: list[Rank | ExternalRank] = [rank for rank in started if not strangers or streams[rank.rank].events]
    return own + [ExternalRank(number, started[0]) for number in strangers]


class HelloFile:
    """The lines of the file, by their first word."""

    def __init__(self, spool: str) -> None:
        self.said: dict[str, list[str]] = {}
        try:
            descriptor = open_plain(os.path.join(spool, HELLO))
        except OSError:
            return
        try:
            text = os.read(descriptor, _MOST).decode("utf-8", "replace")
        finally:
            os.close(descriptor)
        for line in text.split("\n"):
            word, _, rest = line.partition(" ")
            self.said.setdefault(word, []).append(rest[:300])

    def count(self, word: str) -> int:
        return len({rest.partition(" ")[0] for rest in self.said.get(word, ())})

    def warnings(self) -> list[Reason]:
        found = []
        for rest in self.said.get("taken", ()):
            pid, _, rank = rest.partition(" ")
            found.append(reason("second-process-of-rank", pid=pid, rank=rank))
        ranks = [rest.partition(" ")[2] for rest in self.said.get("rank", ())]
        for rank in sorted(set(ranks)):
            if ranks.count(rank) > 1:
                found.append(reason("rank-restarted", rank=rank, count=ranks.count(rank)))
        for rest in self.said.get("broken", ()):
            found.append(reason("measured-in-part", why=reason("hooks-failed", error=rest.partition(" ")[2])))
        return found


class ExternalRanks:
    """What differs for a command that starts the ranks itself."""

    def __init__(self, plan: NodePlan, command: Rank, streams: dict[int, EventStream]) -> None:
        self._plan = plan
        self._streams = streams
        self._hello: HelloFile | None = None
        self._reader: PatternReader | None = None
        if plan.pattern:
            from trainmark.agent.events import pattern

            self._reader = pattern.reader(plan.pattern, command.rank, command.log, plan.spool)

    def look(self) -> None:
        """Reads new lines of the output, where a pattern finds steps in them."""
        if self._reader is not None:
            self._reader.look()

    def next_look(self, now: float) -> float | None:
        return None if self._reader is None else now + self._reader.look_seconds

    def finish(self) -> list[Reason]:
        """Reads what is left before the spool is removed. Warns of what is not in the figures."""
        warnings = self._reader.finish() if self._reader is not None else []
        self._hello = HelloFile(self._plan.spool)
        return warnings + self._hello.warnings()

    def ended_as_asked(self) -> Ending | None:
        """The ending when every rank with events has ended after the steps it was asked for."""
        spoken = [stream for stream in self._streams.values() if stream.events]
        if not spoken or not all(stream.ended_as_asked for stream in spoken):
            return None
        return Ending("SUCCEEDED", reason("ended-as-asked", steps=max(stream.steps for stream in spoken)))

    def silence(self) -> Ending | None:
        """The ending of a command that ended well without a training step: why, and what helps."""
        if self._hello is None or not self._plan.probe or any(stream.steps for stream in self._streams.values()):
            return None
        if self._hello.count("started"):  # through `trainmark-rank`: as for any rank, one event is enough
            mute = not any(stream.events for stream in self._streams.values())
            return Ending("FAILED", reason("node-silent"), "no-steps", self._plan.ranks[0].rank) if mute else None
        why = reason("no-training-step", why=_why(self._plan, self._hello))
        return Ending("FAILED", why, "no-steps", self._plan.ranks[0].rank)


def _why(plan: NodePlan, hello: HelloFile) -> Reason:
    if plan.pattern:
        return reason("no-line-matched")
    if hello.said.get("broken"):
        return reason("hooks-failed", error=hello.said["broken"][0].partition(" ")[2])
    if hello.count("rank"):
        return reason("no-optimizer-step", cure=_CURE)
    if hello.count("torch"):
        return reason("torch-without-training", cure=_CURE)
    for name in ("jax", "keras"):
        if hello.count(name):
            return reason("framework-without-training", name=name, cure=_CURE)
    seen = hello.count("python")
    if seen:
        code = "python-without-torch" if seen == 1 else "pythons-without-torch"
        return reason(code, count=seen, cure=_CURE)
    flag = _flag_without_hooks(plan.ranks[0].argv)
    if flag:
        return reason("python-flag-without-hooks", flag=flag, cure=_CURE)
    return reason("no-python-watched", cure=_CURE)


def _flag_without_hooks(argv: list[str]) -> str | None:
    """A flag before the script that makes Python ignore PYTHONPATH or sitecustomize."""
    if "python" not in os.path.basename(argv[0]):
        return None
    for word in argv[1:]:
        if not word.startswith("-") or word in ("-c", "-m"):
            return None
        if not word.startswith("--") and set(word) & set("IES"):
            return word
    return None
