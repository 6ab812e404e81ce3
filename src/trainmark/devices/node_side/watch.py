"""One process per node that reads the devices: a library or tool that hangs then hangs nothing else.

`agent watch-devices VENDOR SECONDS` writes one line of JSON for what there is, then one for each sample. It ends when
nobody reads it any more.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import time
from typing import Any, Dict, List

from trainmark.devices.node_side.board import Board

# vendor → the module of its node half.
NODE_HALVES = {
    name: "trainmark.devices.%s.node" % name
    for name in (
        "nvidia",
        "amd",
        "dcu",
        "ascend",
        "cambricon",
        "kunlunxin",
        "iluvatar",
        "mthreads",
        "metax",
        "intel",
        "apple",
    )
}


def half(vendor: str) -> Any:
    """The node half of a vendor, or None where the node side has none (one of a plug-in, say)."""
    name = NODE_HALVES.get(vendor)
    return importlib.import_module(name) if name else None


def detect(*vendors: str) -> Dict[str, Any]:
    """The verb `detect VENDOR …`: what there is of each."""
    found = {}
    for vendor in vendors or tuple(NODE_HALVES):
        module = half(vendor)
        if module is not None:
            found[vendor] = module.detect()
    return found


# Asks for a reading at once.
NOW = signal.SIGUSR1


class _NoDevices:
    """Of a machine whose board is read and nothing else."""

    @staticmethod
    def detect() -> Dict[str, Any]:
        return {}

    class Sampler:
        def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
            del rank_pids
            return {}


def watch(vendor: str, every: str, board_every: str = "0", *board: str) -> int:
    """The verb `watch-devices VENDOR SECONDS [SECONDS WORDS …]`: the words say who tells the power of the machine."""
    module = half(vendor) or _NoDevices
    _say({"facts": module.detect()})
    sampler, seconds = module.Sampler(), float(every)
    reader = Board(list(board), float(board_every)) if board else None
    before, spent = time.monotonic(), _cpu()
    due = before
    signal.pthread_sigmask(signal.SIG_BLOCK, [NOW])
    while True:
        signal.sigtimedwait([NOW], max(0.0, due - time.monotonic()))
        due = max(due + seconds, time.monotonic())
        record = sampler.sample({})
        if reader is not None:
            record.update(reader.newest())
        now, cpu = time.monotonic(), _cpu()
        record["devices_t"] = time.monotonic_ns()
        record["devices_cpu"] = round((cpu - spent) / max(1e-9, now - before), 5)
        before, spent = now, cpu
        wrong = getattr(sampler, "problem", None) or (reader.problem if reader is not None else None)
        if wrong:
            record["problem"] = wrong
        if not _say(record):
            return 0


def _cpu() -> float:
    """Seconds of this process and of the tools it has run."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used: List[Any] = [resource.getrusage(kind) for kind in kinds]
    return float(sum(one.ru_utime + one.ru_stime for one in used))


def _say(record: Dict[str, Any]) -> bool:
    """One line on standard output; False when nobody reads."""
    data = (json.dumps(record, separators=(",", ":")) + "\n").encode()
    try:
        while data:
            data = data[os.write(1, data) :]
    except OSError:
        return False
    return True
