"""Search policies: the protocol, the table of those there are, and what they share.

A policy gets the results of all trials and proposes the next architecture. Every worker has one of its own, so nothing
but the ledger is shared.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

import msgspec

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.moves import neighbours
from trainmark.automl.graph.space import Limits, Move
from trainmark.errors import UserError, did_you_mean, one_of

# Draws some moves that a graph allows, with the child each makes.
Near = Callable[[Graph, Random, int, Limits], list[tuple[Move, Graph]]]
_TRIES = 32


class Trial(msgspec.Struct, frozen=True):
    """One architecture of the experiment, as far as a search needs to know it."""

    number: int
    graph: Graph
    # The graph's canonical hash: equal for equal graphs.
    key: str
    # The best accuracy, 0 to 1; None while it trains, and for one that failed (out of memory, not finite).
    value: float | None = None
    # The trial whose graph was changed, and how; none for a start model.
    parent: int | None = None
    moves: tuple[Move, ...] = ()
    # Epochs that its weights have seen, with those of the trials that it inherited them from.
    seen: int = 0


class Proposal(msgspec.Struct, frozen=True):
    """An architecture to train next: `moves`, done in order on the graph of trial `parent`, give `graph`."""

    graph: Graph
    parent: int | None = None
    moves: tuple[Move, ...] = ()


class Policy(Protocol):
    """How the next architecture is chosen. One thread calls it, beside the training of another trial."""

    def __init__(
        self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any], near: Near = neighbours
    ) -> None:
        """`start`: the models to begin from; nothing beyond `limits` is proposed. UserError for an unknown option."""

    def tell(self, trial: Trial) -> None:
        """A trial has ended. Called once for each, in the order in which this worker read them."""

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Random, epochs: int = 0, /) -> Proposal:
        """The next architecture. `history`: trials that have ended; `pending`: those that have not, of all workers;
        `epochs`: for how many it will be trained.

        It should be none of either; the worker asks again when it is, and after some tries trains it all the same.
        """


# name → "module:class"
POLICIES = {
    "evolution": "trainmark.automl.search.mutation:Evolution",
    "morphism-bo": "trainmark.automl.search.morphism_bo:MorphismBO",
    "random": "trainmark.automl.search.mutation:RandomWalk",
}


def check(name: str, place: str) -> None:
    """That there is such a policy, without importing it."""
    if name not in POLICIES:
        raise UserError(f"{place}: no policy `{name}`{did_you_mean(name, POLICIES)}; there is {one_of(POLICIES)}")


def make(
    name: str, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any], near: Near = neighbours
) -> Policy:
    check(name, "policy")
    module, _, attribute = POLICIES[name].partition(":")
    made: Policy = getattr(importlib.import_module(module), attribute)(start, limits, options, near)
    return made


# ---- for policies


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
    """Trials that may have children: those that were trained and can hand on weights; before there are any, all."""
    return [trial for trial in history if trial.value is not None] or [*history, *pending]


def mutation(near: Near, limits: Limits, rng: Random, draw: Callable[[], Trial]) -> Proposal | None:
    """A random neighbour of a parent that `draw` gives; None if after some tries none of them has one."""
    for _ in range(_TRIES):
        parent = draw()
        found = near(parent.graph, rng, 1, limits)
        if found:
            ((move, child),) = found
            return Proposal(child, parent.number, (move,))
    return None
