"""Measures what ranks can send each other; see workload.yaml. Each size of each operation is a note `collective`:

    {"operation": "all_reduce", "bytes": 1048576, "world": 2, "repeats": 40, "seconds": 0.0011,
     "bandwidth": 9.5e8, "bus_bandwidth": 9.5e8}

`seconds` is of one message: the middle of the batches, the slowest rank of each. `bandwidth` is bytes by seconds;
`bus_bandwidth` is what each rank's wire carried, so that it can be compared between operations and numbers of ranks.
An operation that the backend does not have is noted with `missing` and the reason.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import trainmark_job
import trainmark_probe as probe

DEFAULTS = {
    "operations": "all_reduce,all_gather,reduce_scatter,send_recv",
    "min_bytes": 1024,
    "max_bytes": 64 << 20,
    "factor": 16,
    "batches": 5,
    "seconds": 0.5,
    "most_repeats": 1000,
}
# What a message of one byte costs the busiest wire, by the number of ranks.
WIRE: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda world: 2 * (world - 1) / world,
    "all_gather": lambda world: (world - 1) / world,
    "reduce_scatter": lambda world: (world - 1) / world,
    "send_recv": lambda _world: 1.0,
}
_ITEM = 4


def sizes(low: int, high: int, factor: int) -> list[int]:
    found, size = [], low
    while size < high:
        found.append(size)
        size *= factor
    return [*found, high]


def chosen(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in WIRE:
            raise trainmark_job.InputError(f"operations: found `{name}`, allowed are {', '.join(WIRE)}")
    return names


def main() -> None:
    config = trainmark_job.begin("bytes", DEFAULTS)
    params = config["params"]
    names = chosen(params["operations"])
    if config["world"] < 2:
        raise trainmark_job.InputError("collectives need 2 ranks or more: more nodes or more processes per node")

    import trainmark_torch

    ranks = trainmark_torch.join(config)
    probe.init_end()
    probe.train_start()
    for name in names:
        for size in sizes(params["min_bytes"], params["max_bytes"], params["factor"]):
            found = _point(name, size, ranks, params)
            if ranks.rank == 0:
                probe.note("collective", found)
            if "missing" in found:
                break
    probe.train_end()
    probe.finish()
    trainmark_torch.leave(ranks)


def _point(name: str, size: int, ranks: Any, params: dict[str, Any]) -> dict[str, Any]:
    """One operation at one size. All ranks take the same decisions, since they all wait for each other."""
    about = {"operation": name, "bytes": size, "world": ranks.world}
    act = _operation(name, size, ranks)
    try:
        first = _batch(act, 1, ranks)
    except (RuntimeError, NotImplementedError, ValueError) as error:
        return {**about, "missing": str(error).splitlines()[0]}
    first = min(first, _batch(act, 1, ranks))
    repeats = max(1, min(params["most_repeats"], int(params["seconds"] / max(first, 1e-9))))
    taken = []
    for _ in range(params["batches"]):
        taken.append(_batch(act, repeats, ranks) / repeats)
        probe.step(size * repeats)
    seconds = statistics.median(taken)
    return {
        **about,
        "repeats": repeats,
        "seconds": seconds,
        "bandwidth": size / seconds,
        "bus_bandwidth": size / seconds * WIRE[name](ranks.world),
    }


def _batch(act: Callable[[], Any], repeats: int, ranks: Any) -> float:
    """Seconds of the slowest rank, known to all."""
    ranks.barrier()
    begin = time.perf_counter()
    for _ in range(repeats):
        act()
    _wait(ranks)
    return -ranks.least(-(time.perf_counter() - begin))[0]


def _wait(ranks: Any) -> None:
    if ranks.device.type != "cpu":
        trainmark_job.synchronise()


def _operation(name: str, size: int, ranks: Any) -> Callable[[], Any]:
    import torch
    import torch.distributed as dist

    world = ranks.world
    # Each rank's share is whole: sizes are rounded up to the number of ranks.
    part = max(1, -(-size // (_ITEM * world)))
    whole = torch.zeros(part * world, device=ranks.device)
    share = torch.zeros(part, device=ranks.device)
    if name == "all_reduce":
        return lambda: dist.all_reduce(whole)
    if name == "all_gather":
        gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        return lambda: gather(whole, share)
    if name == "reduce_scatter":
        scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        return lambda: scatter(share, whole)
    return _there_and_back(torch.zeros(max(1, -(-size // (2 * _ITEM))), device=ranks.device), ranks)


def _there_and_back(half: Any, ranks: Any) -> Callable[[], Any]:
    """The first half of the ranks each talk with one of the second half: half of the bytes go there, half come back.
    With an even number of nodes, partners are on different nodes."""
    import torch.distributed as dist

    middle = ranks.world // 2
    if ranks.rank < middle:

        def first() -> None:
            dist.send(half, ranks.rank + middle)
            dist.recv(half, ranks.rank + middle)

        return first
    if ranks.rank < 2 * middle:

        def second() -> None:
            dist.recv(half, ranks.rank - middle)
            dist.send(half, ranks.rank - middle)

        return second
    return lambda: None


if __name__ == "__main__":
    trainmark_job.run(main)
