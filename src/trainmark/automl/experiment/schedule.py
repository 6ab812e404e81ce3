"""How long one training goes on, and how its learning rate falls. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

# AIPerf's rule: the loss must fall by so much, within so many epochs.
AIPERF_DELTA, AIPERF_PATIENCE, AIPERF_MOST = 0.001, 6, 20


def budget(epochs: Sequence[int], round_number: int) -> int:
    """Epochs of a training in its round; the last entry holds for all that follow."""
    return epochs[min(round_number, len(epochs) - 1)]


def learning_rate(initial: float, final: float, epoch: float, last: int) -> float:
    """Falls in a straight line from the first epoch to `last`, which is that of the longest budget."""
    done = min(1.0, epoch / last) if last > 0 else 1.0
    return initial + (final - initial) * done


class EarlyStop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`accuracy`: no gain for `patience` epochs. `aiperf`: no falling loss for 6 + 2 × round epochs, 20 at most."""

    rule: Literal["accuracy", "aiperf", "never"] = "accuracy"
    patience: int = 10


def is_stuck(rule: EarlyStop, accuracies: Sequence[float], losses: Sequence[float], round_number: int) -> bool:
    """Whether training on is not worth it, from the values after each epoch so far."""
    if rule.rule == "never":
        return False
    if rule.rule == "aiperf":
        patience = min(AIPERF_PATIENCE + 2 * round_number, AIPERF_MOST)
        return _since_gain([-loss for loss in losses], AIPERF_DELTA) >= patience
    return _since_gain(accuracies, 0.0) >= rule.patience


def _since_gain(values: Sequence[float], delta: float) -> int:
    """Epochs since the best value was last beaten by more than `delta`."""
    best, since = -math.inf, 0
    for value in values:
        if value > best + delta or (best == -math.inf and math.isfinite(value)):
            best, since = value, 0
        else:
            since += 1
    return since
