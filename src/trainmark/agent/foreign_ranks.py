"""Ranks that the agent did not start: a command of the user did, and their probes register by their spool files."""

from __future__ import annotations

import os

from trainmark.agent.lines import open_plain
from trainmark.agent.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainmark.agent.nodeplan import NodePlan
    from trainmark.agent.pattern import Reader
    from trainmark.agent.ranks import Rank
    from trainmark.agent.stream import Stream

HELLO = "hello"
_MOST = 1 << 20  # bytes of it that are read
_MUTE = "the ranks of this node ended without speaking to the probe"
_CURE = "name the lines it prints with --pattern, or have the program speak to the probe"


class Guest:
    """A rank somewhere below the command: it lives as long as the command, and only its events are known."""

    pid = None

    def __init__(self, rank: int, command: Rank) -> None:
        self.rank = rank
        self._command = command

    @property
    def running(self) -> bool:
        return self._command.running

    def record(self, stream: Stream) -> dict[str, Any]:
        unknown = dict.fromkeys(("pid", "exit", "signal", "cpu_s", "max_rss_bytes"))
        return dict(unknown, rank=self.rank, steps=stream.steps, samples=stream.samples)


def present(started: list[Rank], streams: dict[int, Stream]) -> list[Rank | Guest]:
    """The started processes, and those that have spoken without having been started here."""
    known = {rank.rank for rank in started}
    strangers = sorted(number for number in streams if number not in known)
    own: list[Rank | Guest] = [rank for rank in started if not strangers or streams[rank.rank].events]
    return own + [Guest(number, started[0]) for number in strangers]


class Hello:
    """What the processes below the command said of themselves besides their events: who they are, how far they came."""

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

    def warnings(self) -> list[str]:
        found = []
        for rest in self.said.get("taken", ()):
            pid, _, rank = rest.partition(" ")
            found.append("process %s trained as rank %s while another one did, and is not in the figures" % (pid, rank))
        ranks = [rest.partition(" ")[2] for rest in self.said.get("rank", ())]
        for rank in sorted(set(ranks)):
            if ranks.count(rank) > 1:
                what = (rank, ranks.count(rank))
                found.append("rank %s was %d processes one after another; the time between them counts" % what)
        for rest in self.said.get("broken", ()):
            found.append("training is measured only in part: the hooks failed: " + rest.partition(" ")[2])
        return found


class Guests:
    """All that is special about a command whose ranks are not started here."""

    def __init__(self, plan: NodePlan, command: Rank, streams: dict[int, Stream]) -> None:
        self._plan = plan
        self._streams = streams
        self._hello: Hello | None = None
        self._reader: Reader | None = None
        if plan.pattern:
            from trainmark.agent import pattern

            self._reader = pattern.reader(plan.pattern, command.rank, command.log, plan.spool)

    def look(self) -> None:
        """Reads new lines of the output, where steps are told there."""
        if self._reader is not None:
            self._reader.look()

    def next_look(self, now: float) -> float | None:
        return None if self._reader is None else now + self._reader.look_seconds

    def finish(self) -> list[str]:
        """Hears the last words, before the spool goes; warns of what is not in the figures."""
        warnings = self._reader.finish() if self._reader is not None else []
        self._hello = Hello(self._plan.spool)
        return warnings + self._hello.warnings()

    def ended_as_asked(self) -> Verdict | None:
        """The verdict when every rank that spoke has ended itself after the steps it was asked for."""
        spoken = [stream for stream in self._streams.values() if stream.events]
        if not spoken or not all(stream.ended_as_asked for stream in spoken):
            return None
        return Verdict("SUCCEEDED", "ended after %d steps as asked" % max(stream.steps for stream in spoken))

    def silence(self) -> Verdict | None:
        """The verdict on a command that ended well and in which no step was seen: why, and what helps."""
        if self._hello is None or not self._plan.probe or any(stream.steps for stream in self._streams.values()):
            return None
        if self._hello.count("started"):  # by a launcher of ours: as for any rank, speaking is enough
            mute = not any(stream.events for stream in self._streams.values())
            return Verdict("FAILED", _MUTE, "no-steps", self._plan.ranks[0].rank) if mute else None
        reason = "no training step was seen because " + _why(self._plan, self._hello)
        return Verdict("FAILED", reason, "no-steps", self._plan.ranks[0].rank)


def _why(plan: NodePlan, hello: Hello) -> str:
    if plan.pattern:
        return "no line of the output told one: check --pattern against `trainmark logs`"
    if hello.said.get("broken"):
        return "the hooks failed: " + hello.said["broken"][0].partition(" ")[2]
    if hello.count("rank"):
        return "no optimizer of torch.optim stepped; " + _CURE
    if hello.count("torch"):
        return (
            "torch was imported and nothing was trained with it: no batch of a DataLoader, no backward pass; " + _CURE
        )
    seen = hello.count("python")
    if seen:
        who = "the Python that ran" if seen == 1 else "none of the %d Pythons that ran" % seen
        return "%s %simported torch; %s" % (who, "never " if seen == 1 else "", _CURE)
    flag = _deaf(plan.ranks[0].argv)
    if flag:
        return "Python was started with %s, which keeps trainmark's hooks out: leave it away, or %s" % (flag, _CURE)
    return (
        "no Python of the command could be watched: it is no Python program, or Python was started with -I, -E or -S, "
        "or PYTHONPATH was replaced on the way; keep what is in PYTHONPATH, or " + _CURE
    )


def _deaf(argv: list[str]) -> str | None:
    """A flag before the script that has Python ignore PYTHONPATH or sitecustomize."""
    if "python" not in os.path.basename(argv[0]):
        return None
    for word in argv[1:]:
        if not word.startswith("-") or word in ("-c", "-m"):
            return None
        if not word.startswith("--") and set(word) & set("IES"):
            return word
    return None
