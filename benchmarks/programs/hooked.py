"""A small training loop under the hooks of `trainmark exec`; prints how much CPU time each of its steps spent in them,
and how long steps were with the hooks on and off."""

from __future__ import annotations

import json
import random
import sys
from time import perf_counter_ns, thread_time_ns
from typing import Any

import torch
import trainmark_torch_hooks as hooks
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

inside = 0
watched: list[Any] = []
plain_guard = hooks.guard_of


def timed_guard(watch: Any) -> Any:
    """The hooks' own way in, with a clock around it. What the clock takes is counted too."""
    watched.append(watch)
    guard = plain_guard(watch)

    def call(*arguments: Any) -> Any:
        global inside
        before = thread_time_ns()
        try:
            return guard(*arguments)
        finally:
            inside += thread_time_ns() - before

    return call


def main() -> None:
    global inside
    spools, config, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    hooks.guard_of = timed_guard
    hooks.install(torch, spools, config)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    data = TensorDataset(torch.randn(16 * steps, 32), torch.randint(0, 2, (16 * steps,)))
    order = random.Random(1)
    found: dict[str, list[int]] = {"inside": [], "on": [], "off": []}
    on = True
    start = perf_counter_ns()
    for x, y in DataLoader(data, batch_size=16):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        now = perf_counter_ns()
        found["on" if on else "off"].append(now - start)
        if on:
            found["inside"].append(inside)
        # Between two steps nothing is pending: the hooks may come and go.
        inside, on = 0, order.random() < 0.5
        watched[0].on = on
        start = perf_counter_ns()
    watched[0].on = True
    print(json.dumps(found))


main()
