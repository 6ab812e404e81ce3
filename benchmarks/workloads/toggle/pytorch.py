"""Trains a small convolutional network on random images; see workload.yaml.

With the probe on, a step makes the calls that the reference programs make: a span around the data, and step() with the
loss as a tensor. With the probe off, calls that do nothing stand in their place. Times go out as notes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter, perf_counter_ns
from typing import Any

import trainmark_probe as probe

SIZE = 28
POOL = 8  # batches that are used in turn
# One: threads that wait for each other would turn any disturbance of a core into noise of the whole step.
THREADS = 1
WARM_SECONDS = 4.0
# Steps in a row with the probe on, or off: one block of the probe's own, with what it does at a block's edge.
BLOCK_STEPS = probe.BLOCK_STEPS
# Pairs told of at once.
CHUNK = 25


def build(batch: int) -> tuple[Callable[[int], Any], Callable[[Any], Any]]:
    """How the data of step i is had, and how a step is trained on it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(THREADS)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 11 * 11, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pool = [(torch.randn(batch, 1, SIZE, SIZE), torch.randint(10, (batch,))) for _ in range(POOL)]

    def train(pair: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(pair[0]), pair[1])
        loss.backward()
        optimizer.step()
        return loss

    return lambda number: pool[number % POOL], train


def _nothing(samples: int, loss: object) -> None:
    """Takes the place of the probe's step()."""


class Training:
    """The training, any number of steps at a time."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._data, self._train = build(batch)

    def run(self, steps: int, on: bool) -> None:
        """The same loop with the probe on or off: what else it does and holds must not differ."""
        span: Callable[[str], Any] = probe.span if on else nullcontext
        step: Callable[[int, Any], None] = probe.step if on else _nothing
        for number in range(steps):
            with span("data"):
                data = self._data(number)
            loss = self._train(data)
            step(self._batch, loss)

    def seconds(self, on: bool) -> float:
        """Seconds per step, over one block."""
        start = perf_counter()
        self.run(BLOCK_STEPS, on)
        return (perf_counter() - start) / BLOCK_STEPS

    def timed(self, seconds: float) -> dict[str, int]:
        """Nanoseconds inside the probe, nanoseconds in all, and steps, over `seconds` of training."""
        inside, number, begin = 0, 0, perf_counter_ns()
        while perf_counter_ns() < begin + int(seconds * 1e9):
            first = perf_counter_ns()
            with probe.span("data"):
                second = perf_counter_ns()
                data = self._data(number)
                third = perf_counter_ns()
            fourth = perf_counter_ns()
            loss = self._train(data)
            fifth = perf_counter_ns()
            probe.step(self._batch, loss)
            inside += second - first + fourth - third + perf_counter_ns() - fifth
            number += 1
        return {"inside_ns": inside, "total_ns": perf_counter_ns() - begin, "steps": number}


def pairs(training: Training, order: random.Random, count: int) -> dict[str, list[float]]:
    """Seconds per step of `count` pairs of neighbouring blocks, one with the probe on and one with it off."""
    spent: dict[str, list[float]] = {"on": [], "off": []}
    for _ in range(count):
        for name in order.sample(("on", "off"), 2):
            spent[name].append(training.seconds(on=name == "on"))
    return spent


def main() -> None:
    config = probe.config(pairs=100, timed_seconds=0, batch=64)
    params = config["params"]
    probe.init(unit="images")
    training, order = Training(params["batch"]), random.Random(config["seed"])
    probe.note("threads", THREADS)
    probe.init_end()
    probe.train_start()
    start = perf_counter()
    while perf_counter() < start + WARM_SECONDS:
        training.seconds(on=True)
    for _ in range(params["pairs"] // CHUNK):
        probe.note("pairs", pairs(training, order, CHUNK))
    for _ in range(params["timed_seconds"]):
        probe.note("timed", training.timed(1.0))
    probe.train_end()
    probe.finish()


if __name__ == "__main__":
    main()
