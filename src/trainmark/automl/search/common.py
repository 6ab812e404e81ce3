"""What policies share: their options, how they begin, and a random child."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import Limits, Move
from trainmark.automl.search.policy import Proposal, Trial
from trainmark.errors import UserError, did_you_mean, one_of

# Draws some moves that a graph allows, as `trainmark.automl.graph.moves.neighbours` does.
Near = Callable[[Graph, Random, int, Limits], list[tuple[Move, Graph]]]
_TRIES = 32


class Option:
    """A number that may be set: its default and bounds; whole where the default is."""

    def __init__(self, default: float, low: float, high: float) -> None:
        self.default, self.low, self.high = default, low, high


def options_of(policy: str, given: Mapping[str, Any], known: Mapping[str, Option]) -> dict[str, Any]:
    """The options of a policy, with their defaults. UserError for one that it has not, or that makes no sense."""
    for name, value in given.items():
        place = f"policy_options.{name}"
        if name not in known:
            there = f"there is {one_of(known)}" if known else "it has no options"
            raise UserError(f"{place}: no option of `{policy}`{did_you_mean(name, known)}; {there}")
        option = known[name]
        kinds = int if isinstance(option.default, int) else int | float
        if isinstance(value, bool) or not isinstance(value, kinds) or not option.low <= value <= option.high:
            whole = "a whole number " if kinds is int else ""
            raise UserError(f"{place}: found {value!r}, allowed is {whole}from {option.low:g} to {option.high:g}")
    return {name: given.get(name, option.default) for name, option in known.items()}


def first(start: Sequence[Graph], history: Sequence[Trial], pending: Sequence[Trial]) -> Proposal | None:
    """A start model that nobody has taken; None when all are."""
    begun = sum(trial.parent is None for trial in (*history, *pending))
    return Proposal(start[begun]) if begun < len(start) else None


def parents(history: Sequence[Trial], pending: Sequence[Trial]) -> Sequence[Trial]:
    """Who may have children: those that were trained, whose weights can be inherited; before there are any, all."""
    return [trial for trial in history if trial.value is not None] or [*history, *pending]


def mutation(near: Near, limits: Limits, rng: Random, draw: Callable[[], Trial]) -> Proposal | None:
    """A random neighbour of whom `draw` gives; None if some tries find nobody who has one."""
    for _ in range(_TRIES):
        parent = draw()
        found = near(parent.graph, rng, 1, limits)
        if found:
            ((move, child),) = found
            return Proposal(child, parent.number, (move,))
    return None
