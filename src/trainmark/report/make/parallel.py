"""Cases of a large run, scored by several processes at once: each is a plain function of the run's folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from trainmark.report.records import Share
from trainmark.store.files import BROKEN
from trainmark.store.rundir import RunDir

# Rounds that are worth another process, which has to read the plan and the journal first.
ROUNDS_EACH = 300
MOST = 8


def scored(run: RunDir, cases: int, rounds: int, score: Callable[[int, int], Share]) -> Share:
    """All cases in their order. `score` does those from one number up to another in this process."""
    count = min(MOST, cases, rounds // ROUNDS_EACH, len(os.sched_getaffinity(0)))
    if count < 2:
        return score(0, cases)
    from concurrent.futures import ThreadPoolExecutor  # small runs never get here

    edges = [cases * number // count for number in range(count + 1)]
    with ThreadPoolExecutor(count - 1) as pool:
        others = [(pair, pool.submit(_elsewhere, run, *pair)) for pair in pairwise(edges[1:])]
        shares = [score(0, edges[1])]
        # What failed elsewhere is done here, and says itself what is wrong.
        shares += [other.result() or score(*pair) for pair, other in others]
    return Share([case for one in shares for case in one.cases], [text for one in shares for text in one.warnings])


def _elsewhere(run: RunDir, first: int, last: int) -> Share | None:
    """By a process of its own. A pool of processes would run the caller's script again, or fork among its threads; -P
    keeps the current folder off the path."""
    import subprocess

    argv = [sys.executable, "-P", "-m", __name__, str(run.path), str(first), str(last)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    try:
        return msgspec.json.decode(done.stdout, type=Share)
    except BROKEN:
        return None


def main() -> None:
    from trainmark.report.build import some_cases

    path, first, last = sys.argv[1:]
    sys.stdout.buffer.write(msgspec.json.encode(some_cases(RunDir(Path(path)), int(first), int(last))))


if __name__ == "__main__":
    main()
