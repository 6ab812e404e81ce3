"""Score, error and regulated score over time, from the epochs on record. Pure.

Score(t) = operations of all epochs that ended by t ÷ the time from the start to the last of these ends. Error(t) = 1 −
the best accuracy by then. Regulated score = score × −ln(error). An epoch that was not done to its end counts nothing.

Where the error is made of the loss, it is the test loss of a sample ÷ ln(classes), which is 1 for who guesses at
random; what the record calls accuracy is 1 − it. That is trainmark's own, AIPerf knows no such score.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from trainmark.automl.experiment.record import Epoch
from trainmark.automl.experiment.rules import Metric


def quality(metric: Metric, accuracy: float, loss: float, classes: int) -> float:
    """1 − the error of a network: what a search makes large."""
    return accuracy if metric == "accuracy" else max(0.0, 1.0 - loss / math.log(classes))


class Point(msgspec.Struct, frozen=True):
    """The state of an experiment `seconds` after its start."""

    seconds: float
    error: float
    # Operations per second.
    score: float
    regulated: float
    flops: float
    epochs: int


def regulated(score: float, error: float) -> float:
    """FLOPS × −ln(error). An error of 0 cannot be measured: it is below what the test images can show."""
    return score * -math.log(error) if error > 0 else math.inf


def start_of(epochs: Sequence[Epoch]) -> float:
    return min(epoch.begin for epoch in epochs)


def curve(epochs: Sequence[Epoch], rules: str, interval: float, smallest: float = 0.0, most: int = 2000) -> list[Point]:
    """A point every `interval` seconds and one at the last end, which is the result. `smallest`: one wrong image."""
    if not epochs:
        return []
    start = start_of(epochs)
    last = max(epoch.end for epoch in epochs) - start
    interval = max(interval, last / most)
    times = [interval * number for number in range(1, int(last / interval) + 1)]
    if not times or times[-1] < last:
        times.append(last)
    return list(_points(epochs, start, times, rules, smallest))


def _points(
    epochs: Sequence[Epoch], start: float, times: Sequence[float], rules: str, smallest: float
) -> Iterator[Point]:
    ordered = sorted(epochs, key=lambda one: one.end)
    flops, best, ended, index = 0.0, 0.0, 0.0, 0
    for seconds in times:
        while index < len(ordered) and ordered[index].end - start <= seconds + 1e-9:
            flops += ordered[index].flops.get(rules, 0.0)
            best = max(best, ordered[index].accuracy)
            ended = ordered[index].end - start
            index += 1
        if index and ended > 0:
            error = max(1.0 - best, smallest)
            score = flops / ended
            yield Point(seconds, error, score, regulated(score, error), flops, index)
