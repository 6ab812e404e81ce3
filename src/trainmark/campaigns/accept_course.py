"""The course of an acceptance: which run comes next, decided by what the earlier ones showed and the time that is left.

First every node in blocks, which gives the first answer within a third of the time. Then the links, pairs of nodes side
by side, within another third. Then more blocks of all nodes while a loss that shall be found would not be, and of
suspects beside others while any are left, until the time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from trainmark.campaigns import asked as asking
from trainmark.plan import fleet
from trainmark.plan.records import Plan
from trainmark.report.make import acceptance, acceptance_rounds
from trainmark.report.make.acceptance import Acceptance, Gathered, Setting, Stage
from trainmark.report.make.acceptance_rounds import Seen
from trainmark.run.campaign import Campaign, Shown, Step
from trainmark.score.accept import nodes as accept
from trainmark.score.accept.noise import LEAST_BLOCKS, MOST_BLOCKS
from trainmark.store.rundir import RunDir

NODES, MORE, AGAIN, LINKS = "nodes", "more", "again", "links"
# The first answer and the links may each take this part of the time.
PART = 1 / 3
# An answer while it goes on: the verdict so far, and the run that comes next.
Tell = Callable[[Acceptance, Step], object]


class Asked(msgspec.Struct, frozen=True):
    """What an acceptance was asked for, and the plan for its links, as its record holds them."""

    setting: Setting
    links: Plan | None = None


def gather(shown: Sequence[Shown]) -> Gathered:
    return acceptance.gather([(Stage("", _what(step), references(step)), seen) for step, seen in shown])


def next_step(setting: Setting, nodes: Sequence[str], shown: Sequence[Shown], *, links: bool) -> Step | None:
    """The links once; then all nodes again, and the links, while what shall be found would not be; then suspects while
    there are any. None when nothing of this is left to do, or no time for it. Pure."""
    left = None if setting.seconds is None else setting.seconds - sum(seen.seconds for _, seen in shown)
    if links and not any(step.what == LINKS for step, _ in shown):
        return Step(LINKS)
    gathered = gather(shown)
    looks = gathered.looks
    block = _seconds_of_a_block(shown)
    more = accept.more_blocks(looks, nodes, setting.rule, setting.aim)
    more = _that_fit(more, left, block)
    if more:
        return Step(MORE, _timed({"look": len(looks), "blocks": more}, left))
    taken = [seen.seconds for step, seen in shown if step.what == LINKS]
    blind = acceptance.links_are_blind(setting, gathered.links or [])
    if blind and len(taken) < setting.rule.looks and left is not None and max(taken) <= left:
        return Step(LINKS, {"seconds": left})
    again, beside = accept.suspects(looks, nodes, setting.rule)
    if not again:
        return None
    if setting.one_at_a_time:
        block *= (len(again) + len(beside)) / len(nodes)
    blocks = _that_fit(max(len(looks[0]), LEAST_BLOCKS), left, block)
    if not blocks:
        return None
    arguments = {"look": len(looks), "blocks": blocks, "suspects": list(again), "references": list(beside)}
    return Step(AGAIN, _timed(arguments, left))


def _that_fit(blocks: int, left: float | None, block: float) -> int:
    """As many of the blocks as the time allows."""
    if left is None or not blocks:
        return blocks
    if left <= 0:
        return 0
    return min(blocks, int(left / block)) if block > 0 else blocks


def _timed(arguments: dict[str, object], left: float | None) -> dict[str, object]:
    return arguments if left is None else {**arguments, "seconds": left}


def _seconds_of_a_block(shown: Sequence[Shown]) -> float:
    """Of all nodes; 0 where that is not known."""
    whole = [seen for step, seen in shown if step.what in (NODES, MORE)]
    blocks = sum(len({one.round for one in seen.rounds}) for seen in whole)
    return sum(seen.seconds for seen in whole) / blocks if blocks else 0.0


class Course:
    """The procedure of one acceptance. `tell` hears the verdict so far whenever it goes on."""

    def __init__(self, made: Campaign, tell: Tell | None = None) -> None:
        self._made, self._tell = made, tell
        self._asked = asking.read(made.record().asked, Asked, made.name)
        self._first = made.run(made.record().members[0])

    def next(self, shown: Sequence[Shown]) -> Step | None:
        hosts = self._first.manifest().plan.site.hosts
        step = next_step(self._asked.setting, hosts, shown, links=self._asked.links is not None)
        if step is not None and self._tell is not None:
            self._tell(acceptance.build(setting_of(self._made), gather(shown)), step)
        return step

    def folder(self, _step: Step) -> Path:
        return self._first.path.parent

    def plan(self, step: Step) -> Plan:
        if step.what == LINKS and self._asked.links is not None:
            within = step.arguments.get("seconds", self._asked.links.blocks_within)
            return msgspec.structs.replace(self._asked.links, blocks_within=within)
        nodes = self._first.manifest().plan
        arguments = step.arguments
        hosts = nodes.site.hosts if step.what == MORE else [*arguments["suspects"], *references(step)]
        # Blocks of later looks have seeds of their own: those of the longest look there could be lie between.
        seed = nodes.seed + MOST_BLOCKS * int(arguments["look"])
        made = fleet.again(nodes, hosts, seed, arguments.get("blocks"))
        return msgspec.structs.replace(made, blocks_within=arguments.get("seconds"), least_blocks=1)

    def read(self, step: Step, run: RunDir) -> Seen:
        return acceptance_rounds.read(run, step.what)


def references(step: Step) -> tuple[str, ...]:
    """The nodes beside which suspects ran again."""
    return tuple(step.arguments.get("references", ()))


def setting_of(made: Campaign) -> Setting:
    record = made.record()
    stages = [Stage(made.run(one).id, _what(one.step), references(one.step)) for one in record.members]
    return msgspec.structs.replace(asking.read(record.asked, Asked, made.name).setting, stages=stages)


def _what(step: Step) -> Literal["nodes", "more", "again", "links"]:
    found: Literal["nodes", "more", "again", "links"] = msgspec.convert(
        step.what, Literal["nodes", "more", "again", "links"]
    )
    return found
