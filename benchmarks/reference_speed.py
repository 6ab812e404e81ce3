"""How fast the reference programs are: ResNet-50 beside a plain eager loop, and what share of a measured matrix product
ResNet-50, gpt2 and llama reach.

ResNet-50 at 224 pixels and batch 32, each process in turn, first steps left out. trainmark chooses allocator, threads
and layout; the plain loop has what a user gets who chooses nothing. gpt2 and llama as in the suite `quick`,
with twice its batch: quick must make many steps in little time, and so small a batch is not what is trained with.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

from figures import Figure, show, spread
from harness import HERE, Workspace, events, interleaved, trainmark_run, workspace

STEPS, WARM_STEPS = 5, 1
REPEATS, TEXT_REPEATS = 2, 5
WORKLOADS = HERE.parent / "src" / "trainmark" / "workloads"
HOW = (
    f"ResNet-50, 224 px, batch 32, fp32: median time of {STEPS - WARM_STEPS} steps after {WARM_STEPS}, {REPEATS} "
    f"processes of each kind in turn; gpt2 and llama: as in quick, batch 8, median of {TEXT_REPEATS} processes; "
    "matmul_fraction: model operations per second ÷ the best product of 2048 rows in the same process and number format"
)


def eager(place: Workspace) -> list[float]:
    argv = [sys.executable, str(HERE / "peers" / "eager_resnet50.py"), str(WORKLOADS), str(STEPS)]
    said = subprocess.run(argv, env=place.env, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [float(line) for line in said.split()][WARM_STEPS:]


def ours(place: Workspace, suite: str, *words: str, warm: int = WARM_STEPS) -> tuple[list[float], float]:
    """Seconds of each step, and the share of the measured matrix product."""
    folder = place.fresh()
    (folder / "suite.yaml").write_text(suite)
    place.spend(trainmark_run("suite.yaml", *words), folder, expect="SUCCEEDED")
    return _steps(folder, warm), _fraction(folder, warm)


def _steps(folder: Path, warm: int) -> list[float]:
    ends = [event["t"] for event in events(folder) if event["k"] in ("TRAIN_START", "STEP_END")]
    return [(end - start) / 1e9 for start, end in pairwise(ends)][warm:]


def _fraction(folder: Path, warm: int) -> float:
    found = events(folder)
    notes = {event["name"]: event["value"] for event in found if event["k"] == "NOTE"}
    samples = median(event["n"] for event in found if event["k"] == "STEP_END")
    per_second = samples * notes["flops_per_sample"] / median(_steps(folder, warm))
    return float(per_second / notes["matmul_flops_per_s"])


def suite(case: str, preset: str) -> str:
    return f"schema: 1\nname: speed\npreset: {preset}\ncases: [{case}]\n"


def main() -> None:
    large = ["--set", "image_size=224", "--set", "batch=32", "--set", f"steps={STEPS}"]
    words = ["--set", "batch=8", "--set", "steps=40"]
    with workspace() as place:
        resnet = suite("resnet50:pytorch:cpu:1:1:1", "full")
        found = interleaved(
            {"eager": lambda: (eager(place), 0.0), "ours": lambda: ours(place, resnet, *large)}, REPEATS, warm_ups=0
        )
        place.spend([trainmark_run()[0], "data", "get", "state-of-the-union"], place.fresh())
        text = {
            name: [
                ours(place, suite(f"{name}:pytorch:cpu:1:1:1", "quick"), *words, warm=10) for _ in range(TEXT_REPEATS)
            ]
            for name in ("gpt2", "llama")
        }
    seconds = {name: [second for steps, _ in runs for second in steps] for name, runs in found.items()}
    ratio = median(seconds["eager"]) / median(seconds["ours"])
    figures = [
        Figure("ResNet-50, 224 px, batch 32, time of a step", "s", median(seconds["ours"]), "eager PyTorch",
               median(seconds["eager"]), "peer ÷ ours", ratio, "≥ 1.5", ratio >= 1.5),
    ]  # fmt: skip
    shares = {"ResNet-50": [share for _, share in found["ours"]]}
    shares.update({name: [share for _, share in runs] for name, runs in text.items()})
    for name, values in shares.items():
        share = median(values)
        figures.append(Figure(f"{name}, matmul_fraction", "", share, None, None, "ours", share, "≥ 0.6", share >= 0.6))
    details = {name: spread(values) for name, values in seconds.items()}
    details.update({f"{name} matmul_fraction": spread(values) for name, values in shares.items()})
    show("reference_speed", HOW, figures, details)


if __name__ == "__main__":
    main()
