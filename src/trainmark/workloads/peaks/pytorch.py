"""Measures what the hardware can reach; see workload.yaml. All ranks measure at the same time, as they would train.

Every figure is a note `peak` of each rank:

    {"what": "matmul", "dtype": "fp32", "size": 2048, "seconds": 10.1, "flops": 1.1e11, "best": 1.2e11}
    {"what": "memory", "bytes": 268435456, "seconds": 3.0, "bandwidth": 1.5e10}
    {"what": "host_to_device" or "device_to_host", "bytes": ..., "seconds": ..., "bandwidth": ...}
    {"what": "product", "dtype": "fp32", "size": 64, "intensity": 10.7, "flops": 2e10}     on the way to the roof

A number format that the device has no units for is noted with `missing` and the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import trainmark_job
import trainmark_probe as probe

DEFAULTS = {"dtypes": "fp32", "seconds": 10.0, "memory_seconds": 3.0, "memory_bytes": 1 << 28, "size": 0}
# The agent hears this often that the process lives.
_BLOCK_SECONDS = 1.0
# Small products read more memory for each operation: between them and the large one the roof bends.
_SMALL = (16, 32, 64, 128, 256, 512, 1024)
_SMALL_SECONDS = 0.2


def main() -> None:
    config = trainmark_job.begin("products", DEFAULTS)
    params = config["params"]

    import trainmark_torch

    ranks = trainmark_torch.join(config)
    size = params["size"] or trainmark_torch.MATMUL_SIZE["cpu" if ranks.device.type == "cpu" else "other"]
    probe.init_end()
    probe.train_start()
    for dtype in [name.strip() for name in params["dtypes"].split(",") if name.strip()]:
        try:
            precision = trainmark_torch.Precision(dtype, ranks.device)
        except trainmark_job.InputError as error:
            probe.note("peak", {"what": "matmul", "dtype": dtype, "missing": str(error)})
            continue
        _matmul(dtype, precision, ranks, size, params["seconds"])
    _memory(ranks, params["memory_bytes"], params["memory_seconds"])
    if ranks.device.type != "cpu":
        _copies(ranks, params["memory_bytes"], params["memory_seconds"])
    probe.train_end()
    probe.finish()
    trainmark_torch.leave(ranks)


def _matmul(dtype: str, precision: Any, ranks: Any, size: int, seconds: float) -> None:
    import torch

    with torch.no_grad():
        for small in [*(small for small in _SMALL if small < size), size]:
            # In the format already: autocast would convert them inside the time of each product.
            left, right = (torch.randn(small, small, device=ranks.device).to(precision.stored) for _ in range(2))
            whole = small == size
            taken, best, done = _repeat(lambda a=left, b=right: a @ b, ranks, seconds if whole else _SMALL_SECONDS)
            about = {"dtype": dtype, "size": small, "seconds": taken, "flops": done * 2 * small**3 / taken}
            width = 4 if dtype in ("fp32", "tf32") else 2
            probe.note("peak", {"what": "product", "intensity": small / (1.5 * width), **about})
            if whole:
                probe.note("peak", {"what": "matmul", "best": 2 * small**3 / best, **about})


def _memory(ranks: Any, size: int, seconds: float) -> None:
    """a = b + 3 c on large arrays: three streams."""
    import torch

    a, b, c = (torch.ones(size // 4, device=ranks.device) for _ in range(3))
    taken, _, done = _repeat(lambda: torch.add(b, c, alpha=3.0, out=a), ranks, seconds)
    found = {"bytes": a.nbytes, "seconds": taken, "bandwidth": 3 * a.nbytes * done / taken}
    probe.note("peak", {"what": "memory", **found})


def _copies(ranks: Any, size: int, seconds: float) -> None:
    import torch

    there = torch.ones(size // 4, device=ranks.device)
    here = torch.ones(size // 4).pin_memory() if ranks.device.type == "cuda" else torch.ones(size // 4)
    for what, to, source in (("host_to_device", there, here), ("device_to_host", here, there)):
        taken, _, done = _repeat(lambda a=to, b=source: a.copy_(b, non_blocking=True), ranks, seconds)
        found = {"bytes": there.nbytes, "seconds": taken, "bandwidth": there.nbytes * done / taken}
        probe.note("peak", {"what": what, **found})


def _repeat(act: Callable[[], Any], ranks: Any, seconds: float) -> tuple[float, float, int]:
    """Seconds in all, the shortest of one, and how many: at least so long, and the same moment on all ranks."""
    import trainmark_torch

    act()
    trainmark_torch.wait(ranks.device)
    ranks.barrier()
    begin = noted = time.perf_counter()
    best, done, batch, now = float("inf"), 0, 1, begin
    while now - begin < seconds:
        start = now
        for _ in range(batch):
            act()
        trainmark_torch.wait(ranks.device)
        now = time.perf_counter()
        best = min(best, (now - start) / batch)
        done += batch
        # Looking at the clock, and waiting for the device, shall cost next to nothing.
        if now - start < 0.01:
            batch *= 2
        if now - noted > _BLOCK_SECONDS:
            probe.step(1)
            noted = now
    probe.step(1)
    return now - begin, best, done


if __name__ == "__main__":
    trainmark_job.run(main)
