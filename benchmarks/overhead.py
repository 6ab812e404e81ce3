"""How much slower training gets under trainmark, as an upper bound.

A bound is the sum of
- the probe: one training process turns it on and off, in pairs of random order. Step time on ÷ step time off, upper end
  of a one-sided 95 % t interval on the logarithms. An event's way into the file is in it;
- the agent with its sampler, and the controller: their CPU seconds per second of training, ÷ the cores that train. As
  if each of their cycles were taken from the training, which is too much where a core is free.

The probe's part is measured in two designs. Pairs of single steps are held against the bar; they would miss a cost that
spills from a step with the probe on into one with it off. Pairs of blocks of seconds would see it, but what disturbs a
machine often hits one block of a pair alone: they are so noisy that they are given in the details only, as is a third,
direct estimate: the time inside the probe's calls ÷ the rest.

The probe costs about the same for every step, so its part shrinks as steps get longer: the batch is chosen to give
steps of about the length that `resnet50` has in the suite `quick`. The cost of one step in µs is in the details, for
whoever has shorter ones. Not in the bounds: what sharing caches and memory with the agent
costs, since the agent is there whether the probe is on or off. The start of a run and its report are not training;
`first_step.py` and `noop.py` measure them.
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

PAIRS = 28
BATCH = 512
BLOCK_SECONDS = 2
STEADY_SECONDS = 30
START_SECONDS = 12
LEVEL = 0.95
SUITE = str(HERE / "workloads" / "overhead.yaml")
HOW = (
    "step time with the probe on ÷ off in one training process, in pairs of random order, upper end of a one-sided "
    f"{LEVEL:.0%} t interval on logarithms, plus CPU share of agent, sampler and controller as if taken from the core "
    "that trains; a small network, one thread, steps as long as those of `resnet50` in `quick`. Single steps in random "
    f"order, ratio of the medians of each of {PAIRS} stretches of {2 * BLOCK_SECONDS} s; pairs of whole blocks of "
    f"{BLOCK_SECONDS} s are noisier and in the details. "
    "Never less than the time inside the probe's calls. A miss by noise shows as a large standard error; "
    "`probe_us_per_step` tells the cost for steps of another length"
)


def notes(folder: Path, name: str) -> list[Any]:
    return [event["value"] for event in events(folder) if event["k"] == "NOTE" and event["name"] == name]


def percent(logs: list[float]) -> dict[str, float]:
    """Mean and upper bound, in %, of ratios given as logarithms."""
    error = stdev(logs) / math.sqrt(len(logs))
    upper = mean(logs) + student.ppf(LEVEL, len(logs) - 1) * error
    return {"mean": 100 * math.expm1(mean(logs)), "upper": 100 * math.expm1(upper), "standard_error": 100 * error}


def on_off(place: Lab) -> dict[str, Any]:
    """What the probe adds, in %: pairs of steps and pairs of blocks, by wall time and by CPU time."""
    folder = place.fresh()
    words = ["--set", f"pairs={PAIRS}", "--set", f"block_seconds={BLOCK_SECONDS}", "--set", f"batch={BATCH}"]
    place.spend(trainmark_run(SUITE, *words), folder, expect="SUCCEEDED")
    found: dict[str, Any] = {}
    for design in ("by_step", "by_block"):
        pairs = notes(folder, design)
        for clock in ("wall", "cpu"):
            logs = [math.log(pair[f"{clock}_on"] / pair[f"{clock}_off"]) for pair in pairs]
            found[f"{design}_{clock}"] = percent(logs)
    found["step_ms"] = 1000 * mean(pair["wall_off"] for pair in notes(folder, "by_step"))
    return found


def steady(place: Lab) -> dict[str, float]:
    """A run with the probe always on, in %: time inside the probe's calls, and CPU beside the training."""
    folder = place.fresh()
    words = ["--set", "pairs=0", "--set", f"timed_seconds={STEADY_SECONDS}", "--set", f"batch={BATCH}"]
    argv = trainmark_run(SUITE, *words)
    controller = _controller_share(argv, folder, place.env)
    said = result(folder)
    (cores,) = notes(folder, "threads")
    seconds = notes(folder, "timed")
    timed = [math.log1p(one["inside_ns"] / (one["total_ns"] - one["inside_ns"])) for one in seconds]
    return {
        "agent": 100 * said["overhead"]["agent_cpu_s"] / said["duration"] / cores,
        "controller": 100 * controller / cores,
        "probe_timed_upper": percent(timed)["upper"],
        "probe_us_per_step": sum(one["inside_ns"] for one in seconds) / sum(one["steps"] for one in seconds) / 1000,
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
    with lab() as place:
        probe, beside = on_off(place), steady(place)
    watching = beside["agent"] + beside["controller"]
    # Noise can make the pairs say that the probe speeds training up; the time inside its calls is spent in any case.
    bound = max(probe["by_step_wall"]["upper"], beside["probe_timed_upper"]) + watching
    figures = [at_most("overhead on training, upper 95 % bound", "%", bound, 1)]
    direct = {"bound_from_timed_calls": beside["probe_timed_upper"] + watching}
    show("overhead", HOW, figures, {"probe_percent": probe, "steady_percent": beside, **direct})


if __name__ == "__main__":
    main()
