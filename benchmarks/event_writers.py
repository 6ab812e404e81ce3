"""One way of writing step events, many times: `event_writers.py WAY EVENTS FILE` prints CPU microseconds per event.

A process of its own for each way, so that none inherits the imports or the heap of another.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable

Write = Callable[[int], None]


def with_probe(file: str) -> Write:
    os.environ["TRAINMARK_SPOOL"] = file
    import trainmark_probe as probe

    probe.init()
    return lambda _: probe.step(64, loss=0.5)


def with_mllog(file: str) -> Write:
    """MLPerf's logger, given a handler for the file alone: by default it would print every event as well."""
    from mlperf_logging import mllog

    mllog.config(logger=_logger(file))
    event = mllog.get_mllogger().event
    return lambda step: event("STEP_END", 0.5, {"rank": 0, "seq": step, "step": step, "n": 64})


def with_logging(file: str) -> Write:
    """What most programs do: a dictionary, json.dumps, a logger."""
    log, dumps, now = _logger(file).info, json.dumps, time.monotonic_ns
    return lambda step: log(
        dumps({"k": "STEP_END", "rank": 0, "seq": step, "t": now(), "step": step, "n": 64, "loss": 0.5})
    )


def _logger(file: str) -> logging.Logger:
    logger = logging.getLogger("events")
    logger.propagate = False
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.FileHandler(file))
    return logger


WAYS = {"probe": with_probe, "mllog": with_mllog, "logging": with_logging}


def main() -> None:
    way, events, file = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    write = WAYS[way](file)
    start = time.process_time_ns()
    for step in range(events):
        write(step)
    print((time.process_time_ns() - start) / events / 1000)


if __name__ == "__main__":
    main()
