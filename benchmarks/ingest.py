"""A million PerfLog lines into columns: the reader of `import flagperf` beside a loop with `re` and `json`.

Both give the same columns of steps, times, samples and losses; hashes of both are compared.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import time
from array import array
from pathlib import Path
from typing import Any

from figures import Figure, at_most, show, spread, times_less
from harness import HERE, Workspace, interleaved, workspace

from trainmark.interop.flagperf.perflog import blocks

LINES = 1_000_000
# What other text stands between PerfLog lines in a real log.
NOISE_EVERY = 200
REPEATS = 5
PEER = "re + json"
HOW = (
    f"wall time in a fresh process, modules imported, from opening the file to the last row, {LINES} PerfLog lines and "
    f"{LINES // NOISE_EVERY} others (file in the page cache), median of {REPEATS} interleaved repeats; "
    "memory: peak of the process; growth: the same for three times as many lines"
)
_LINE = re.compile(r"^\[PerfLog\]\s*(\{.*\})\s*$")
_FILE = "/workspace/flagperf/training/benchmarks/cpm/pytorch/run_pretraining.py"


def make(file: Path, lines: int) -> None:
    """A log as CPM on PyTorch writes it with log_freq 1: its keys, their order, and plausible numbers."""
    draw = random.Random(1)
    with file.open("w") as out:
        for index in range(lines):
            record: dict[str, Any] = {"event": "STEP_END"}
            if index % 100 == 98:
                record["event"] = "EPOCH_END"
            elif index % 100 == 99:
                record["event"] = "EVALUATE"
            else:
                record["value"] = {
                    "loss": draw.random() * 5,
                    "embedding_average": draw.random(),
                    "epoch": index // 1000,
                    "end_training": False,
                    "global_steps": index + 1,
                    "num_trained_samples": (index + 1) * 256,
                    "learning_rate": 0.1 * draw.random(),
                    "seq/s": 800 * draw.random(),
                }
            record["metadata"] = {"file": _FILE, "lineno": 127, "time_ms": 1669034171032 + index * 311, "rank": 0}
            out.write(f"[PerfLog] {json.dumps(record)}\n")
            if index % NOISE_EVERY == 0:
                out.write(f"some other output, step {index} loss nan\n")


def ours(path: Path) -> list[str]:
    """A hash of each column: every block is gone when the next one comes."""
    hashes = [hashlib.blake2b() for _ in range(4)]
    for block in blocks(path):
        step, t_ms, total, _, loss = block.columns()
        for digest, column in zip(hashes, (step, t_ms, total, loss), strict=True):
            digest.update(column)
    return [digest.hexdigest() for digest in hashes]


def theirs(path: Path) -> list[str]:
    step, t_ms, total, loss = array("q"), array("q"), array("q"), array("d")
    with path.open() as lines:
        for line in lines:
            found = _LINE.match(line)
            if found is None:
                continue
            record = json.loads(found[1])
            if record["event"] == "STEP_END":
                value = record["value"]
                step.append(value["global_steps"])
                t_ms.append(record["metadata"]["time_ms"])
                total.append(value["num_trained_samples"])
                loss.append(value["loss"])
    return [hashlib.blake2b(column).hexdigest() for column in (step, t_ms, total, loss)]


def measure(place: Workspace, way: str, file: Path) -> dict[str, Any]:
    argv = [sys.executable, str(HERE / "ingest.py"), way, str(file)]
    said = subprocess.run(argv, env=place.env, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def child(way: str, file: Path) -> None:
    started = time.perf_counter()
    hashes = (ours if way == "ours" else theirs)(file)
    wall = time.perf_counter() - started
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "megabytes": megabytes, "hashes": hashes}))


def main() -> None:
    with workspace() as place:
        file, long = place.fresh() / "perflog", place.fresh() / "perflog"
        make(file, LINES)
        with long.open("wb") as out:
            for _ in range(3):
                with file.open("rb") as short:
                    shutil.copyfileobj(short, out)
        found = interleaved({way: lambda way=way: measure(place, way, file) for way in ("ours", PEER)}, REPEATS)
        tripled = measure(place, "ours", long)
    for mine, peer in zip(found["ours"], found[PEER], strict=True):
        if mine["hashes"] != peer["hashes"]:
            raise SystemExit(f"the two do not read the same: {mine['hashes']} and {peer['hashes']}")
    wall = {way: [one["wall"] for one in all_of] for way, all_of in found.items()}
    memory = max(one["megabytes"] for one in found["ours"])
    figures: list[Figure] = [
        times_less("1 M PerfLog lines into columns, wall time", "s", wall["ours"], PEER, wall[PEER], 4),
        at_most("the same of 3 M lines, more memory than for 1 M", "MB", tripled["megabytes"] - memory, 10),
    ]
    details: dict[str, Any] = {
        way: {name: spread([one[name] for one in all_of]) for name in ("wall", "cpu", "megabytes")}
        for way, all_of in found.items()
    }
    details["3 M lines"] = {name: tripled[name] for name in ("wall", "cpu", "megabytes")}
    show("ingest", HOW, figures, details)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        child(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
