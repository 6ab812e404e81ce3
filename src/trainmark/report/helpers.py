"""Cases of a large run, scored by several processes at once: each is a plain function of the run's folder."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.report.records import Share
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    import subprocess

# Rounds that are worth another process, which has to read the plan and the journal first.
ROUNDS_EACH = 300
MOST = 8


def scored(run: RunDir, cases: int, rounds: int, score: Callable[[int, int], Share]) -> Share:
    """All cases in their order. `score` does those from one number up to another in this process."""
    count = min(MOST, cases, rounds // ROUNDS_EACH, len(os.sched_getaffinity(0)))
    if count < 2:
        return score(0, cases)
    edges = [cases * number // count for number in range(count + 1)]
    rest = list(pairwise(edges[1:]))
    others = [_start(run, *pair) for pair in rest]
    try:
        shares = [score(0, edges[1])]
        for (first, last), helper in zip(rest, others, strict=True):
            shares.append(_answer(helper) or score(first, last))
    finally:
        for helper in others:
            with contextlib.suppress(OSError):
                helper.kill()
            helper.wait()
    return Share([case for one in shares for case in one.cases], [text for one in shares for text in one.warnings])


def _start(run: RunDir, first: int, last: int) -> subprocess.Popen[bytes]:
    import subprocess  # small runs never get here

    argv = [sys.executable, "-m", __name__, str(run.path), str(first), str(last)]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _answer(helper: subprocess.Popen[bytes]) -> Share | None:
    """None when it failed: the work is then done here, and says itself what is wrong."""
    try:
        return msgspec.json.decode(helper.communicate()[0], type=Share)
    except msgspec.DecodeError:
        return None


def main() -> None:
    from trainmark.report.build import some_cases

    path, first, last = sys.argv[1:]
    sys.stdout.buffer.write(msgspec.json.encode(some_cases(RunDir(Path(path)), int(first), int(last))))


if __name__ == "__main__":
    main()
