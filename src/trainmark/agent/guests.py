"""Ranks that the agent did not start: a command of the user did, and their probes register by their spool files."""

from __future__ import annotations

import os

from trainmark.agent.lines import open_plain
from trainmark.agent.verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from trainmark.agent.nodeplan import NodePlan
    from trainmark.agent.ranks import Rank
    from trainmark.agent.stream import Stream

HELLO = "hello"
_MOST = 1 << 20  # bytes of it that are read
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
        for rest in self.said.get("broken", ()):
            found.append("training is measured only in part: the hooks failed: " + rest.partition(" ")[2])
        return found


def silence(plan: NodePlan, hello: Hello) -> Verdict:
    """The verdict on a command that ended well and in which no step was seen: why, and what helps."""
    return Verdict("FAILED", "no training step was seen because " + _why(plan, hello), "no-steps", plan.ranks[0].rank)


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


def ended_as_asked(streams: dict[int, Stream]) -> Verdict | None:
    """The verdict when every rank that spoke has ended itself after the steps it was asked for."""
    spoken = [stream for stream in streams.values() if stream.events]
    if not spoken or not all(stream.ended_as_asked for stream in spoken):
        return None
    return Verdict("SUCCEEDED", "ended after %d steps as asked" % max(stream.steps for stream in spoken))
