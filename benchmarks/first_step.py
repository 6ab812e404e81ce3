"""How long a user waits: to the first training step beside torchrun, and for each further round.

Both start the same program with the same parameters, threads, allocator and Python path, and the probe writes its
events in both. The first STEP_END carries CLOCK_MONOTONIC of this host, as does the moment the command was started.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from statistics import median
from typing import Any

from figures import at_most, more, show, spread
from harness import OURS, Workspace, events, interleaved, only, result, trainmark_run, workspace

REPEATS = 7
CASE = "resnet50:pytorch:cpu:1:1:1"
ROUNDS = 6
HOW = (
    f"wall time from starting the command to the first STEP_END of {CASE} (preset smoke, 1 step, synthetic data), "
    f"median of {REPEATS} interleaved repeats after a warm-up; each further round: wall time of {ROUNDS} no-op rounds "
    f"− that of 1, ÷ {ROUNDS - 1}"
)


class Torchrun:
    """`torchrun` of the program that trainmark ran in `folder`, in the environment its rank had."""

    def __init__(self, place: Workspace, folder: Path) -> None:
        plan = json.loads(only(folder, "node.json").read_text())
        self._place = place
        self._config: dict[str, Any] = plan["config"]
        self._command: list[str] = plan["ranks"][0]["argv"]
        tuning = result(folder)["settings"]["env"]
        path = ":".join(plan["path"])
        self._env = {**place.env, **plan["env"], **tuning, "PYTHONPATH": path, "TRAINMARK_RANK": "0"}

    def first_step(self) -> float:
        folder = self._place.fresh()
        config = folder / "config.json"
        config.write_text(json.dumps({**self._config, "workdir": str(folder)}))
        spool = folder / "events.jsonl"
        env = {**self._env, "TRAINMARK_SPOOL": str(spool), "TRAINMARK_CONFIG": str(config)}
        argv = [str(OURS / "torchrun"), "--nproc-per-node", "1", "--master-port", str(_free_port())]
        return _until_first_step(self._place, [*argv, "--no-python", *self._command], folder, env)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _until_first_step(place: Workspace, argv: list[str], folder: Path, env: dict[str, str] | None = None) -> float:
    spent = place.spend(argv, folder, env)
    first = next(event["t"] for event in events(folder) if event["k"] == "STEP_END")
    return float(first - spent.started) / 1e9


def rounds(place: Workspace, number: int) -> float:
    argv = trainmark_run(f"noop:none:cpu:1:1:{number}", "--preset", "smoke")
    return place.spend(argv, place.fresh(), expect="SUCCEEDED").wall


def main() -> None:
    with workspace() as place:
        ours = trainmark_run(CASE, "--preset", "smoke", "--set", "steps=1")
        pattern = place.fresh()
        place.spend(ours, pattern)
        torchrun = Torchrun(place, pattern)
        found = interleaved(
            {
                "trainmark": lambda: _until_first_step(place, ours, place.fresh()),
                "torchrun": torchrun.first_step,
                "1 round": lambda: rounds(place, 1),
                f"{ROUNDS} rounds": lambda: rounds(place, ROUNDS),
            },
            REPEATS,
        )
    wait = {name: median(values) for name, values in found.items()}
    further = (wait[f"{ROUNDS} rounds"] - wait["1 round"]) / (ROUNDS - 1)
    figures = [
        more("to the first step, wall time", "s", wait["trainmark"], "torchrun", wait["torchrun"], 0.5),
        at_most("each further round, wall time", "s", further, 0.5),
    ]
    show("first_step", HOW, figures, {name: spread(values) for name, values in found.items()})


if __name__ == "__main__":
    main()
