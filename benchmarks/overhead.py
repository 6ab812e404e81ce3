"""How much slower training gets under trainmark, as an upper bound.

The bound is the sum of
- the probe: one training process runs pairs of adjacent blocks, probe on and probe off, in random order. Step time on
  ÷ step time off, upper end of a one-sided 95 % t interval on the logarithms. An event's way to the disk is in it;
- the agent with its sampler, and the controller: their CPU seconds per second of training, ÷ the cores that train. As
  if each of their cycles were taken from the training, which is too much where a core is free.

Not in it: what sharing caches and memory with the agent costs, since it runs in both kinds of blocks. The start of a
run and its report are not training; `first_step.py` and `noop.py` measure them.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from figures import at_most, show
from lab import HERE, Lab, events, lab, result, trainmark_run
from scipy.stats import t as student

PAIRS = 60
BLOCK_SECONDS = 2
STEADY_SECONDS = 30
START_SECONDS = 12
LEVEL = 0.95
SUITE = str(HERE / "workloads" / "overhead.yaml")
HOW = (
    f"upper {LEVEL:.0%} bound: probe on ÷ probe off over {PAIRS} pairs of adjacent blocks of {BLOCK_SECONDS} s in one "
    "training process (t interval on logarithms), plus CPU share of agent, sampler and controller, as if taken from "
    "the core that trains; a small network, one thread, steps of about 20 ms"
)


def notes(folder: Path, name: str) -> list[Any]:
    return [event["value"] for event in events(folder) if event["k"] == "NOTE" and event["name"] == name]


def log_ratios(blocks: list[dict[str, Any]], clock: str) -> list[float]:
    """Of each pair: log of the step time with the probe on ÷ off."""
    pairs: dict[int, dict[bool, float]] = {}
    for block in blocks:
        pairs.setdefault(block["pair"], {})[block["on"]] = block[clock] / block["steps"]
    return [math.log(pair[True] / pair[False]) for pair in pairs.values()]


def percent(logs: list[float]) -> dict[str, float]:
    """Mean and upper bound, in %, of ratios given as logarithms."""
    half = student.ppf(LEVEL, len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return {
        "mean": 100 * math.expm1(mean(logs)),
        "upper": 100 * math.expm1(mean(logs) + half),
        "pair_deviation": 100 * stdev(logs),
        "n": len(logs),
    }


def toggled(place: Lab) -> dict[str, Any]:
    """The probe on and off, by wall time and by CPU time."""
    folder = place.fresh()
    words = ["--set", f"pairs={PAIRS}", "--set", f"block_seconds={BLOCK_SECONDS}"]
    place.spend(trainmark_run(SUITE, *words), folder, expect="SUCCEEDED")
    blocks = notes(folder, "block")
    steps, seconds = (sum(block[name] for block in blocks) for name in ("steps", "seconds"))
    return {
        "step_ms": 1000 * seconds / steps,
        "wall": percent(log_ratios(blocks, "seconds")),
        "cpu": percent(log_ratios(blocks, "cpu_seconds")),
    }


def steady(place: Lab) -> dict[str, float]:
    """Shares, in %, of a run with the probe always on: time inside the probe, and CPU beside the training."""
    folder = place.fresh()
    argv = trainmark_run(SUITE, "--set", "pairs=0", "--set", f"timed_seconds={STEADY_SECONDS}")
    controller = _controller_share(argv, folder, place.env)
    said = result(folder)
    (cores,) = notes(folder, "threads")
    timed = [math.log1p(note["inside_ns"] / (note["total_ns"] - note["inside_ns"])) for note in notes(folder, "timed")]
    return {
        "agent": 100 * said["overhead"]["agent_cpu_s"] / said["duration"] / cores,
        "controller": 100 * controller / cores,
        "cores": cores,
        "probe_timed": percent(timed)["upper"],
    }


def _controller_share(argv: list[str], folder: Path, env: dict[str, str]) -> float:
    """Runs the command; CPU seconds per second of its first process, once it has started and before it reports."""
    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=output, stderr=output)
    marks = []
    while process.poll() is None:
        marks.append((time.monotonic(), _cpu_seconds(process.pid)))
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{(folder / 'output.log').read_text()}")
    (start, before), (end, after) = next(mark for mark in marks if mark[0] > marks[0][0] + START_SECONDS), marks[-5]
    return (after - before) / (end - start)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with lab() as place:
        probe, beside = toggled(place), steady(place)
    watching = beside["agent"] + beside["controller"]
    figures = [at_most("overhead on training, upper 95 % bound", "%", probe["wall"]["upper"] + watching, 1)]
    second = {"second_estimate_percent": beside["probe_timed"] + watching}
    show("overhead", HOW, figures, {"probe_percent": probe, "beside_percent": beside, **second})


if __name__ == "__main__":
    main()
