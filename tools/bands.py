"""Makes the reference loss bands of workloads: `python tools/bands.py [--preset NAME] [WORKLOAD …]`, else of all.

Each preset that has a band is run with SEEDS seeds, by trainmark itself. The steps are cut into equal stretches; the
band of a stretch is where the mean loss of one more seed lies with a probability of 99.9 % (a t prediction interval),
and at least ±2 %, for other hardware rounds in another way. The result is `bands.json` beside `workload.yaml`.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import msgspec
from scipy.stats import t as student

from trainmark import __version__
from trainmark.spec import band, workload
from trainmark.spec.shape import STEPS
from trainmark.store.rundir import RunDir

SEEDS = 5
PRESETS = ("smoke", "quick", "contest")
STRETCHES = 5
LEVEL = 0.999
LEAST = 0.02
FRAMEWORK = "pytorch"


def losses(attempt: Path) -> dict[int, float]:
    """By step, the mean over ranks."""
    found: dict[int, list[float]] = defaultdict(list)
    for file in attempt.glob("*/events.jsonl"):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["k"] == "LOSS":
                for step, value in zip(event["steps"], event["values"], strict=True):
                    found[step].append(float(value))
    return {step: mean(values) for step, values in found.items()}


def stretches(runs: list[dict[int, float]]) -> tuple[band.Stretch, ...]:
    last = min(max(run) for run in runs)
    edges = [round(last * part / STRETCHES) for part in range(STRETCHES + 1)]
    return tuple(_stretch(runs, first + 1, end) for first, end in pairwise(edges))


def _stretch(runs: list[dict[int, float]], first: int, last: int) -> band.Stretch:
    means = [mean(run[step] for step in range(first, last + 1)) for run in runs]
    n, middle = len(means), mean(means)
    quantile = float(student.ppf(0.5 + LEVEL / 2, n - 1))
    half = max(quantile * stdev(means) * math.sqrt(1 + 1 / n), LEAST * abs(middle))
    # A loss of cross entropy is never below zero.
    return band.Stretch(first, last, _short(max(0.0, middle - half)), _short(middle + half))


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def make(name: str, preset: str, folder: Path) -> band.Band:
    suite = folder / f"{name}-{preset}.yaml"
    case = f"{name}:{FRAMEWORK}:cpu:1:1:{SEEDS}"
    suite.write_text(json.dumps({"schema": 1, "name": "bands", "preset": preset, "cases": [case]}))
    # A new band is not held against the old one.
    write(name, [one for one in band.read(workload.BUILT_IN / name) if one.preset != preset])
    argv = [sys.executable, "-m", "trainmark", "run", str(suite), "--runs", str(folder / "runs"), "--json"]
    said = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    report: dict[str, Any] = json.loads(said.stdout)
    if said.returncode:
        raise SystemExit(f"{name} {preset}: {(report['cases'][0]['reason'] or {}).get('text')}")
    run = RunDir(Path(report["dir"]))
    (plan,) = run.manifest().plan.cases
    # Of the recipe's own steps: a preset that runs by time goes on after them, as long as the machine makes it.
    steps = next(int(plan.params[one]) for one in STEPS if one in plan.params)
    seen = [
        {step: loss for step, loss in losses(path).items() if step <= steps}
        for path in sorted(run.path.glob("*/round*/attempt1"))
    ]
    return band.Band(
        preset=preset,
        framework=FRAMEWORK,
        data=plan.data_name or plan.data,
        global_batch=band.global_batch(plan.params, plan.world),
        params=plan.params,
        seeds=len(seen),
        stretches=stretches(seen),
    )


def write(name: str, bands: list[band.Band]) -> None:
    import torch

    made = {
        "trainmark": __version__,
        "torch": str(torch.__version__),
        "machine": platform.machine(),
        "script": "tools/bands.py",
    }
    content = msgspec.json.encode(band.Bands(1, made, tuple(bands)))
    path = workload.BUILT_IN / name / band.FILE
    path.write_bytes(msgspec.json.format(content, indent=1) + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="*")
    parser.add_argument("--preset", choices=PRESETS, help="make that one anew, and keep the others")
    asked = parser.parse_args()
    chosen = asked.workload or [
        name for name in workload.names() if workload.read(workload.BUILT_IN / name).workload.loss == "falling"
    ]
    presets = [asked.preset] if asked.preset else PRESETS
    for name in chosen:
        if not (workload.BUILT_IN / name / "workload.yaml").is_file():
            parser.error(f"no workload `{name}` in {workload.BUILT_IN}")
    with tempfile.TemporaryDirectory(prefix="trainmark-bands-") as folder:
        for name in chosen:
            here = workload.BUILT_IN / name
            for preset in (one for one in presets if one in workload.read(here).workload.presets):
                made = make(name, preset, Path(folder))
                write(name, [*band.read(here), made])
            sys.stdout.write(f"{here / band.FILE}\n")


if __name__ == "__main__":
    main()
