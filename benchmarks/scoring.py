"""What scoring costs: a large run, many small ones, and a cluster's run of 10 million events, on made-up runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time

from figures import at_most, show
from harness import Workspace, workspace

MILLION = ("noop:none:cpu:1:8:1", 125_000)
CLUSTER = ("noop:none:cpu:1250:8:1", 1_000)
SMALL_RUNS = 1_000
SMALL = ("noop:none:cpu:1:1:1", 100)
HOW = (
    "run directories with made-up events (`trainmark.testing.synthetic`), each built into a report by a fresh process, "
    "nothing cached; its own clock and its largest memory, imports included"
)
# Makes runs, so that making them counts neither for time nor for memory.
MAKE = """
import sys
from pathlib import Path
from trainmark.testing.synthetic import Shape, write_run
folder, case, steps, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
for number in range(count):
    write_run(folder, case, [Shape(steps=steps, seconds=0.2, noise=0.02, warmup=steps // 20)], seed=number)
"""
BUILD = """
import time
began = time.monotonic()
import json, resource, sys
from pathlib import Path
from trainmark.report import build
from trainmark.report.show import show
from trainmark.store.rundir import RunDir
value = None
for folder in sorted(Path(sys.argv[1]).iterdir()):
    report = build.build(RunDir(folder))
    show(report)
    value = report.cases[0].measurements["throughput"].value
seconds, memory = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"s": seconds, "GiB": memory, "throughput": value}))
"""


def measured(place: Workspace, case: str, steps: int, count: int = 1) -> dict[str, float]:
    """Seconds and memory of reporting `count` runs."""
    folder = place.fresh()
    make = [sys.executable, "-c", MAKE, str(folder), case, str(steps), str(count)]
    subprocess.run(make, env=place.env, check=True)
    said = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], env=place.env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found: dict[str, float] = json.loads(said)
    if not found["throughput"]:
        raise SystemExit(f"{case} with {steps} steps: no throughput was found")
    shutil.rmtree(folder)  # gigabytes are not left lying until the end
    return found


def main() -> None:
    with workspace() as place:
        began = time.monotonic()
        million = measured(place, *MILLION)
        small = measured(place, *SMALL, count=SMALL_RUNS)
        cluster = measured(place, *CLUSTER)
        spent = time.monotonic() - began
    figures = [
        at_most("1 million events, scored and reported", "s", million["s"], 3),
        at_most(f"{SMALL_RUNS} small runs, scored again", "s", small["s"], 60),
        at_most("10 million events of 10,000 ranks, scored and reported", "s", cluster["s"], 40),
        at_most("10 million events of 10,000 ranks, memory", "GiB", cluster["GiB"], 2),
    ]
    show("scoring", HOW, figures, {"million": million, "small": small, "cluster": cluster, "all_s": spent})


if __name__ == "__main__":
    main()
