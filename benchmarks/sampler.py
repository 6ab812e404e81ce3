"""What watching costs: the CPU share of the agent, sampling at 1 Hz, beside a rank that does nothing."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from figures import at_most, show, spread
from harness import only, result, trainmark_run, workspace

SECONDS = 25
HOW = (
    f"CPU time of the agent over its whole life, start included, ÷ its duration, while a rank sleeps for {SECONDS} s; "
    "% of one core"
)


def _samples(folder: Path) -> list[float]:
    """The agent's own account of itself, sample by sample, in % of one core."""
    lines = only(folder, "samples.jsonl").read_text().splitlines()[1:]
    shares = [json.loads(line)["agent_cpu"] for line in lines]
    return [100 * share for share in shares if share is not None]


def main() -> None:
    with workspace() as place:
        folder = place.fresh()
        argv = trainmark_run("noop:none:cpu:1:1:1", "--preset", "smoke", "--set", f"seconds={SECONDS}")
        place.spend(argv, folder, expect="SUCCEEDED")
        said, samples = result(folder), _samples(folder)
    if len(samples) < SECONDS - 2:
        raise SystemExit(f"{len(samples)} samples in {SECONDS} s: the sampler did not run at 1 Hz")
    share = 100 * said["overhead"]["agent_cpu_s"] / said["duration"]
    figures = [at_most("agent and sampler at 1 Hz, CPU share of one core", "%", share, 1)]
    details = {"samples_percent": spread(samples), "steady_percent": median(samples)}
    show("sampler", HOW, figures, {**details, "agent_cpu_s": said["overhead"]["agent_cpu_s"]})


if __name__ == "__main__":
    main()
