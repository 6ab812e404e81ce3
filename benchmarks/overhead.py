"""How much slower training gets under trainmark, as an upper bound.

The bound is the sum of
- the probe: what it adds to a step, in microseconds, ÷ a step of STEP_MS. One training process turns it on and off in
  pairs of neighbouring blocks, in random order. A block is one of the probe's own (10 steps), so that the losses it
  writes and the device it waits for at a block's edge are in it. The steps are short, since a cost of microseconds
  drowns in the noise of long ones, and the probe does the same for every step, however long. Upper end of a one-sided
  95 % interval of the trimmed mean of the differences (a fifth is cut off at each end: what disturbs a machine often
  hits one block of a pair alone); never less than the time inside the probe's calls, timed in a run of their own;
- the agent with its sampler, and the controller: their CPU seconds per second of training, ÷ the cores that train. As
  if each of their cycles were taken from the training, which is too much where a core is free.

STEP_MS is shorter than a step of any built-in `quick` preset on a CPU but `mnist`. The microseconds are in the
details, for whoever has steps of another length. Not in the bound: what sharing caches and memory with the agent costs,
since the agent is there whether the probe is on or off. The start of a run and its report are not training;
`first_step.py` and `noop.py` measure them.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from figures import at_most, show
from harness import HERE, Workspace, events, result, trainmark_run, workspace

PAIRS = 300
BATCH = 64
STEP_MS = 100
STEADY_SECONDS = 30
START_SECONDS = 12
LEVEL = 0.95
CUT = 0.2  # of the differences, at each end
SUITE = str(HERE / "workloads" / "overhead.yaml")
HOW = (
    f"what the probe adds to a step (on − off in one training process, {PAIRS} pairs of blocks of 10 steps in random "
    f"order, upper end of a one-sided {LEVEL:.0%} interval of the trimmed mean, never less than the time inside its "
    f"calls) ÷ {STEP_MS} ms, plus the CPU share of agent, sampler and controller as if taken from the core that trains"
)


def notes(folder: Path, name: str) -> list[Any]:
    return [event["value"] for event in events(folder) if event["k"] == "NOTE" and event["name"] == name]


def trimmed(values: list[float]) -> tuple[float, float]:
    """Trimmed mean and its upper bound (Yuen: the spread is that of the values pulled in to the cut)."""
    from scipy.stats import t as student

    ordered, cut = sorted(values), int(CUT * len(values))
    kept = ordered[cut : len(ordered) - cut]
    pulled = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = stdev(pulled) / ((1 - 2 * CUT) * math.sqrt(len(values)))
    return mean(kept), mean(kept) + float(student.ppf(LEVEL, len(kept) - 1)) * error


def on_off(place: Workspace) -> dict[str, float]:
    """What the probe adds to a step, in µs."""
    folder = place.fresh()
    words = ["--set", f"pairs={PAIRS}", "--set", f"batch={BATCH}"]
    place.spend(trainmark_run(SUITE, *words), folder, expect="SUCCEEDED")
    chunks = notes(folder, "pairs")
    differences = [1e6 * (on - off) for chunk in chunks for on, off in zip(chunk["on"], chunk["off"], strict=True)]
    added, upper = trimmed(differences)
    off_ms = 1000 * median(off for chunk in chunks for off in chunk["off"])
    return {"added_us": added, "upper_us": upper, "step_ms": off_ms, "pairs": len(differences)}


def steady(place: Workspace) -> dict[str, float]:
    """A run with the probe always on: µs inside the probe's calls per step, and CPU beside the training in %."""
    folder = place.fresh()
    words = ["--set", "pairs=0", "--set", f"timed_seconds={STEADY_SECONDS}", "--set", f"batch={BATCH}"]
    argv = trainmark_run(SUITE, *words)
    controller = _controller_share(argv, folder, place.env)
    said = result(folder)
    (cores,) = notes(folder, "threads")
    seconds = notes(folder, "timed")
    return {
        "agent": 100 * said["overhead"]["agent_cpu_s"] / said["duration"] / cores,
        "controller": 100 * controller / cores,
        "timed_us": sum(one["inside_ns"] for one in seconds) / sum(one["steps"] for one in seconds) / 1000,
    }


def _controller_share(argv: list[str], folder: Path, env: dict[str, str]) -> float:
    """Runs the command; CPU seconds per second of its first process, once it has started and before it reports."""
    log = folder / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=output, stderr=output)
    marks = []
    while process.poll() is None:
        marks.append((time.monotonic(), _cpu_seconds(process.pid)))
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} failed:\n{log.read_text(errors='replace')[-2000:]}")
    start, before = next(mark for mark in marks if mark[0] > marks[0][0] + START_SECONDS)
    end, after = marks[-5]
    return (after - before) / (end - start)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    with workspace() as place:
        probe, beside = on_off(place), steady(place)
    probe_percent = 100 * max(probe["upper_us"], beside["timed_us"]) / (1000 * STEP_MS)
    bound = probe_percent + beside["agent"] + beside["controller"]
    figures = [at_most("overhead on training, upper 95 % bound", "%", bound, 1)]
    show("overhead", HOW, figures, {"probe": probe, "beside": beside, "probe_percent": probe_percent})


if __name__ == "__main__":
    main()
