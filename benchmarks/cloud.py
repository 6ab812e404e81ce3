"""What the cloud path costs: seconds of a run on an emulated ModelArts beyond the training job itself, and how far
behind the logs of its workers are."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from figures import at_most, show, spread
from harness import Workspace, trainmark_run, workspace

from trainmark.emulate.modelarts import site_file
from trainmark.emulate.modelarts.server import Emulator

REPEATS = 5
CASE = "noop:none:cpu:2:2:1"
TICKING_SECONDS, TICK = 30.0, 0.2
HOW = (
    f"`trainmark run {CASE}` on an emulated ModelArts as `trainmark emulate modelarts` makes it: the wall time of the "
    f"command less what the service says that the job ran, median of {REPEATS}; the first, whose code goes up, counts. "
    f"Logs: 2 × 2 ranks write the time every {TICK:g} s for {TICKING_SECONDS:g} s; the largest age of the last line "
    "that is here, over all ranks and looks; service and launcher at their usual intervals (5 s each)"
)
_WORKLOAD = """\
schema: 1
name: ticker
title: writes the time
unit: ticks
entry: {none: main.py}
presets: {quick: {}}
deadlines: {start: 120, step: 120, total: 600}
"""
_PROGRAM = f"""\
import time
import trainmark_probe as probe

probe.init(unit="ticks")
probe.init_end()
probe.train_start()
end = time.time() + {TICKING_SECONDS}
while time.time() < end:
    print(repr(time.time()), flush=True)
    time.sleep({TICK})
    probe.step(1)
probe.train_end()
probe.finish()
"""
_SUITE = "schema: 1\nname: ticking\nworkloads: [workloads]\ncases: ['ticker:none:cpu:2:2:1']\n"


def _beyond(place: Workspace, emulator: Emulator, site: Path) -> tuple[list[float], list[float]]:
    """Of each run: seconds beyond its job, and those of the job."""
    beyond, jobs = [], []
    argv = trainmark_run(CASE, "--preset", "smoke", "--site", str(site))
    for number in range(REPEATS):
        spent = place.spend(argv, place.fresh(), expect="SUCCEEDED")
        done = emulator.jobs.all()
        if len(done) != number + 1:
            raise SystemExit(f"{len(done)} jobs after {number + 1} runs")
        newest = max(done, key=lambda job: job.record["metadata"]["create_time"])
        jobs.append(newest.record["status"]["duration"] / 1000)
        beyond.append(spent.wall - jobs[-1])
    return beyond, jobs


def _behind(place: Workspace, site: Path) -> list[float]:
    """The age of the last line of each log at each look, from its first line on."""
    folder = place.fresh()
    (folder / "workloads/ticker").mkdir(parents=True)
    (folder / "workloads/ticker/workload.yaml").write_text(_WORKLOAD)
    (folder / "workloads/ticker/main.py").write_text(_PROGRAM)
    (folder / "suite.yaml").write_text(_SUITE)
    ages: list[float] = []
    with (folder / "output.log").open("wb") as output:
        run = subprocess.Popen(
            trainmark_run("suite.yaml", "--site", str(site)), cwd=folder, env=place.env, stdout=output, stderr=output
        )
        while run.poll() is None:
            ages += _ages(folder)
            time.sleep(0.1)
    if run.returncode or len(ages) < 100:
        raise SystemExit(f"exit {run.returncode}, {len(ages)} looks:\n{(folder / 'output.log').read_text()[-2000:]}")
    return ages


def _ages(folder: Path) -> Iterator[float]:
    for log in folder.glob("runs/*/ticker*/round1/attempt1/*/rank*.out.log"):
        lines = log.read_text().splitlines()
        # The last line of all is as old as the rest of the run: only what a running rank wrote counts.
        if lines and float(lines[-1]) - float(lines[0]) < TICKING_SECONDS - 2 * TICK:
            yield time.time() - float(lines[-1])


def main() -> None:
    os.environ.pop("TRAINMARK_RUNS", None)
    with workspace() as place, Emulator(place.fresh() / "emulator") as emulator:
        site = site_file.write(emulator)
        beyond, jobs = _beyond(place, emulator, site)
        behind = _behind(place, site)
    figures = [
        at_most("cloud path beyond the job, wall time", "s", median(beyond), 15.0),
        at_most("logs of ranks of a cloud job, largest age of the last line here", "s", max(behind), 15.0),
    ]
    show("cloud", HOW, figures, {"beyond_s": spread(beyond), "job_s": spread(jobs), "behind_s": spread(behind)})


if __name__ == "__main__":
    main()
