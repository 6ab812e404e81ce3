"""What the hooks of `trainmark exec` cost an unmodified program, as an upper bound.

The CPU time of each step inside the hooks (a batch fetched, a backward pass, an optimizer step, the event's way into
the file) is taken directly, with the clock's own cost in it: its median, and the upper end of a one-sided 95 % t
interval of its mean. That it is the whole cost is checked by steps with the hooks on and off in random order, in the
details: their difference holds also what the hooks do to caches, and much noise. The hooks cost about the same for
every step, so the bound is given for one of 100 ms. Agent and controller cost what they cost in any run: `overhead.py`
measures them.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, median, stdev

from figures import at_most, show, spread
from harness import HERE, PACKAGE, workspace
from scipy.stats import t as student

STEPS = 3000
# Processes, one after another: on a shared machine the least disturbed one tells most of the hooks themselves.
REPEATS = 5
WARM_UP = 100
STARTS = 15
TYPICAL_MS = 100
LEVEL = 0.95
HOW = (
    f"CPU time inside the hooks in each of {STEPS} steps of a small network, {REPEATS} processes: median of each, of "
    f"which the least and the median; and the largest upper end of one-sided {LEVEL:.0%} t intervals of their means, ÷ "
    f"a step of {TYPICAL_MS} ms; CPU time of `python -c pass` with and "
    f"without the hooks' folder on its path, {STARTS} pairs, median of differences"
)


def hooked_steps(folder: Path) -> dict[str, list[int]]:
    config = folder / "config.json"
    config.write_text(json.dumps({"exec": {"unit": "samples", "batch": None, "steps": None}}))
    env = {**os.environ, "PYTHONPATH": str(PACKAGE / "probe"), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    argv = [sys.executable, str(HERE / "programs" / "hooked.py"), str(folder), str(config), str(STEPS)]
    said = subprocess.run(argv, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, list[int]] = json.loads(said)
    return {name: values[WARM_UP // (1 if name == "inside" else 2) :] for name, values in found.items()}


def upper_bound(values: list[int]) -> float:
    error = stdev(values) / math.sqrt(len(values))
    return mean(values) + float(student.ppf(LEVEL, len(values) - 1)) * error


def start_cost(folder: Path) -> list[float]:
    """CPU milliseconds that a Python takes longer to start, pair by pair."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINMARK", "PYTHON"))}
    hooked = {**plain, "PYTHONPATH": str(PACKAGE / "probe" / "site"), "TRAINMARK_SPOOLS": str(folder)}
    return [1000 * (_cpu(hooked) - _cpu(plain)) for _ in range(STARTS + 1)][1:]


def _cpu(env: dict[str, str]) -> float:
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], env)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit("python -c pass failed")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    with workspace() as place:
        repeats = [hooked_steps(place.fresh()) for _ in range(REPEATS)]
        starts = start_cost(place.fresh())
    upper = max(upper_bound(steps["inside"]) for steps in repeats) / 1000
    medians = [median(steps["inside"]) / 1000 for steps in repeats]
    figures = [
        at_most(f"hooks of exec in a step of {TYPICAL_MS} ms, upper 95 % bound", "%", upper / TYPICAL_MS / 10, 1),
        at_most(f"hooks of exec in a step, least of {REPEATS} processes", "µs CPU", min(medians), 60),
        # What neighbours on a shared machine cost is in it.
        at_most(f"hooks of exec in a step, median of {REPEATS} processes", "µs CPU", median(medians), 120),
        at_most("hooks of exec at the start of each Python", "ms CPU", median(starts), 5),
    ]
    on_off = [(median(steps["on"]) - median(steps["off"])) / 1000 for steps in repeats]
    details = {
        "us_per_step_upper": upper,
        "us_per_step": [spread([value / 1000 for value in steps["inside"]]) for steps in repeats],
        "on_minus_off_us": on_off,
        "step_off_us": [median(steps["off"]) / 1000 for steps in repeats],
        "start_ms": spread(starts),
    }
    show("exec_overhead", HOW, figures, details)


if __name__ == "__main__":
    main()
