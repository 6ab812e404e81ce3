"""What a search policy is: it is told how trials went, and asked for the next architecture.

A policy lives in a worker. Every worker has its own and is told of all trials of the experiment, so nothing but the
ledger is shared. `POLICIES` names those there are; each is made by `Policy(start, limits, options)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of

if TYPE_CHECKING:
    from random import Random

    from trainmark.automl.graph.graph import Graph
    from trainmark.automl.graph.moves import Limits, Move


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


class Proposal(msgspec.Struct, frozen=True):
    """An architecture to train next: `moves`, done in order on the graph of trial `parent`, give `graph`."""

    graph: Graph
    parent: int | None = None
    moves: tuple[Move, ...] = ()


class Policy(Protocol):
    """How the next architecture is chosen. One thread calls it, beside the training of another trial."""

    def __init__(self, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any]) -> None:
        """`start`: the models to begin from; nothing beyond `limits` is proposed. UserError for an unknown option."""

    def tell(self, trial: Trial) -> None:
        """A trial has ended. Each is told once, in the order in which this worker heard of them."""

    def ask(self, history: Sequence[Trial], pending: Sequence[Trial], rng: Random) -> Proposal:
        """The next architecture. `history`: all that was told; `pending`: generated or in training, here or elsewhere.

        It should be none of either; the worker asks again when it is, and after some tries trains it all the same.
        """


# name → "module:class"
POLICIES = {
    "evolution": "trainmark.automl.search.evolution:Evolution",
    "morphism-bo": "trainmark.automl.search.morphism_bo:MorphismBO",
    "random": "trainmark.automl.search.random:Random",
}


def check(name: str, place: str) -> None:
    """That there is such a policy, without importing it."""
    if name not in POLICIES:
        raise UserError(f"{place}: no policy `{name}`{did_you_mean(name, POLICIES)}; there is {one_of(POLICIES)}")


def make(name: str, start: Sequence[Graph], limits: Limits, options: Mapping[str, Any]) -> Policy:
    check(name, "policy")
    module, _, attribute = POLICIES[name].partition(":")
    made: Policy = getattr(importlib.import_module(module), attribute)(start, limits, options)
    return made
