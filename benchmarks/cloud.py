"""What the cloud path costs: seconds of a run on an emulated ModelArts beyond the training job itself."""

from __future__ import annotations

from statistics import median

from figures import at_most, show, spread
from harness import trainmark_run, workspace

from trainmark.emulate.modelarts import site_file
from trainmark.emulate.modelarts.server import Emulator

REPEATS = 5
CASE = "noop:none:cpu:2:2:1"
HOW = (
    f"`trainmark run {CASE}` on an emulated ModelArts as `trainmark emulate modelarts` makes it: the wall time of the "
    f"command less what the service says that the job ran, median of {REPEATS}; the first, whose code goes up, counts"
)


def main() -> None:
    beyond, jobs = [], []
    with workspace() as place, Emulator(place.fresh() / "emulator") as emulator:
        site = site_file.write(emulator)
        argv = trainmark_run(CASE, "--preset", "smoke", "--site", str(site))
        for number in range(REPEATS):
            spent = place.spend(argv, place.fresh(), expect="SUCCEEDED")
            done = emulator.jobs.all()
            if len(done) != number + 1:
                raise SystemExit(f"{len(done)} jobs after {number + 1} runs")
            newest = max(done, key=lambda job: job.record["metadata"]["create_time"])
            jobs.append(newest.record["status"]["duration"] / 1000)
            beyond.append(spent.wall - jobs[-1])
    figures = [at_most("cloud path beyond the job, wall time", "s", median(beyond), 15.0)]
    show("cloud", HOW, figures, {"beyond_s": spread(beyond), "job_s": spread(jobs)})


if __name__ == "__main__":
    main()
