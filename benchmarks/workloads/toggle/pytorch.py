"""Trains a small convolutional network on random images; see workload.yaml.

With the probe on, a step makes the calls that the reference programs make: a span around the data, and step() with the
loss as a tensor. With the probe off, calls that do nothing stand in their place. Times go out as notes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median
from time import perf_counter, perf_counter_ns, process_time
from typing import Any

import trainmark_probe as probe

SIZE = 28
POOL = 8  # batches that are used in turn
# One: threads that wait for each other would turn any disturbance of a core into noise of the whole step.
THREADS = 1
WARM_SECONDS = 4.0


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

    def rate(self, seconds: float) -> float:
        """Steps per second, over the second half of a warm-up."""
        start, count = perf_counter(), 0
        while perf_counter() < start + seconds:
            self.run(1, on=True)
            count += perf_counter() > start + seconds / 2
        return count / (seconds / 2)

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


def compare(training: Training, order: random.Random, group: int, pairs: int) -> dict[str, float]:
    """Median seconds of `pairs` groups of steps with the probe on, and of as many with it off, by two clocks."""
    spent: dict[str, list[float]] = {name: [] for name in ("wall_on", "wall_off", "cpu_on", "cpu_off")}
    for _ in range(pairs):
        for name in order.sample(("on", "off"), 2):
            wall, cpu = perf_counter(), process_time()
            training.run(group, on=name == "on")
            spent[f"wall_{name}"].append(perf_counter() - wall)
            spent[f"cpu_{name}"].append(process_time() - cpu)
    return {name: median(seconds) for name, seconds in spent.items()}


def main() -> None:
    config = probe.config(pairs=20, block_seconds=2.0, timed_seconds=0, batch=64)
    params = config["params"]
    probe.init(unit="images")
    training, order = Training(params["batch"]), random.Random(config["seed"])
    probe.note("threads", THREADS)
    probe.init_end()
    probe.train_start()
    steps = math.ceil(1.05 * params["block_seconds"] * training.rate(WARM_SECONDS))
    probe.note("block_steps", steps)
    for _ in range(params["pairs"]):
        probe.note("by_block", compare(training, order, steps, 1))
        probe.note("by_step", compare(training, order, 1, steps))
    for _ in range(params["timed_seconds"]):
        probe.note("timed", training.timed(1.0))
    probe.train_end()
    probe.finish()


if __name__ == "__main__":
    main()
