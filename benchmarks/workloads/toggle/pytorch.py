"""Trains a small convolutional network on random images; see workload.yaml.

With the probe on, a step makes the calls that the reference programs make: a span around the data, and step() with the
loss as a tensor. With the probe off, calls that do nothing stand in their place. Each block's time goes out as a note,
between blocks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter, perf_counter_ns, process_time
from typing import Any

import trainmark_probe as probe

SIZE = 28
POOL = 8  # batches that are used in turn
# One: threads that wait for each other would turn any disturbance of a core into noise of the whole step.
THREADS = 1
WARM_SECONDS = 4.0


def build(batch: int) -> tuple[Callable[[int], object], Callable[[object], object]]:
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


class Blocks:
    """Blocks of as many steps as fill the asked time, counted once so that all blocks do the same work."""

    def __init__(self, batch: int, seconds: float) -> None:
        self.batch = batch
        self.data, self.train = build(batch)
        probe.init_end()
        probe.train_start()
        self.off(1)
        rate = self._rate(WARM_SECONDS)
        self.steps = math.ceil(1.05 * seconds * rate)

    def _rate(self, seconds: float) -> float:
        """Steps per second, over the second half of a warm-up."""
        half, count, end = perf_counter() + seconds / 2, 0, perf_counter() + seconds
        while perf_counter() < end:
            self.on(1)
            count += perf_counter() > half
        return count / (seconds / 2)

    def on(self, steps: int) -> None:
        self._run(steps, probe.span, probe.step)

    def off(self, steps: int) -> None:
        self._run(steps, nullcontext, _nothing)

    def _run(self, steps: int, span: Callable[[str], Any], step: Callable[[int, object], None]) -> None:
        """The same loop for both kinds of blocks: what else it does and holds must not differ."""
        for number in range(steps):
            with span("data"):
                data = self.data(number)
            loss = self.train(data)
            step(self.batch, loss)

    def clocked(self, on: bool) -> dict[str, float]:
        """One block, with the probe on or off, by both clocks."""
        start, cpu_start = perf_counter(), process_time()
        (self.on if on else self.off)(self.steps)
        return {"seconds": perf_counter() - start, "cpu_seconds": process_time() - cpu_start}

    def timed(self, seconds: float) -> tuple[int, int]:
        """Nanoseconds inside the probe, and of everything, over `seconds` of training."""
        inside, number, begin = 0, 0, perf_counter_ns()
        end = begin + int(seconds * 1e9)
        while perf_counter_ns() < end:
            first = perf_counter_ns()
            with probe.span("data"):
                second = perf_counter_ns()
                data = self.data(number)
                third = perf_counter_ns()
            fourth = perf_counter_ns()
            loss = self.train(data)
            fifth = perf_counter_ns()
            probe.step(self.batch, loss)
            inside += second - first + fourth - third + perf_counter_ns() - fifth
            number += 1
        return inside, perf_counter_ns() - begin


def main() -> None:
    config = probe.config(pairs=20, block_seconds=2.0, timed_seconds=0.0, batch=64)
    params = config["params"]
    probe.init(unit="images")
    probe.note("threads", THREADS)
    blocks = Blocks(params["batch"], params["block_seconds"])
    order = random.Random(config["seed"])
    for pair in range(params["pairs"]):
        for on in order.sample([True, False], 2):
            probe.note("block", {"pair": pair, "on": on, "steps": blocks.steps, **blocks.clocked(on)})
    for _ in range(math.ceil(params["timed_seconds"])):
        inside, total = blocks.timed(1.0)
        probe.note("timed", {"inside_ns": inside, "total_ns": total})
    probe.train_end()
    probe.finish()


if __name__ == "__main__":
    main()
