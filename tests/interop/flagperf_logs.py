"""FlagPerf logs for tests. The five lines of CPM are a real run's, from FlagPerf's training/README.md (the tail of
rank0.out.log of CPM on 8 A100); all others are made after the same shape, as documentation and code describe it.
The line formats of monitors are those of FlagPerf's `*_monitor.py`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

CPM = """\
[PerfLog] {"event": "STEP_END", "value": {"loss": 2.679504871368408, "embedding_average": 0.916015625, "epoch": 1, "end_training": true, "global_steps": 3397, "num_trained_samples": 869632, "learning_rate": 0.000175375, "seq/s": 822.455385237589}, "metadata": {"file": "/workspace/flagperf/training/benchmarks/cpm/pytorch/run_pretraining.py", "lineno": 127, "time_ms": 1669034171032, "rank": 0}}
[PerfLog] {"event": "EVALUATE", "metadata": {"file": "/workspace/flagperf/training/benchmarks/cpm/pytorch/run_pretraining.py", "lineno": 127, "time_ms": 1669034171032, "rank": 0}}
[PerfLog] {"event": "EPOCH_END", "metadata": {"file": "/workspace/flagperf/training/benchmarks/cpm/pytorch/run_pretraining.py", "lineno": 127, "time_ms": 1669034171159, "rank": 0}}
[PerfLog] {"event": "TRAIN_END", "metadata": {"file": "/workspace/flagperf/training/benchmarks/cpm/pytorch/run_pretraining.py", "lineno": 136, "time_ms": 1669034171159, "rank": 0}}
[PerfLog] {"event": "FINISHED", "value": {"e2e_time": 1661.6114165782928, "training_sequences_per_second": 579.0933420700227, "converged": true, "final_loss": 3.066718101501465, "final_mlm_accuracy": 0.920166015625, "raw_train_time": 1501.713, "init_time": 148.937}, "metadata": {"file": "/workspace/flagperf/training/benchmarks/cpm/pytorch/run_pretraining.py", "lineno": 158, "time_ms": 1669034171646, "rank": 0}}
"""  # noqa: E501

START_MS = 1669032000000
EVERY_MS = 500


def line(event: str, at_ms: int, **more: Any) -> str:
    metadata = {"file": "run_pretraining.py", "lineno": 1, "time_ms": START_MS + at_ms, "rank": -1}
    return "[PerfLog] " + json.dumps({"event": event, **more, "metadata": metadata}) + "\n"


def steps(count: int, batch: int = 8, every: int = 10, per_device: int = 1) -> list[str]:
    """Every `every`th step of `count`, half a second each; running totals of samples, of all devices or of one."""
    found = []
    for step in range(every, count + 1, every):
        value = {"loss": 1 / step, "global_steps": step, "num_trained_samples": step * batch // per_device}
        found.append(line("STEP_BEGIN", step * EVERY_MS - EVERY_MS, step=step))
        found.append(line("STEP_END", step * EVERY_MS, value=value))
    return found


def log(count: int = 400, batch: int = 8, *, end: bool = True, converged: bool = True, **more: Any) -> str:
    """A whole run: `batch` samples of all devices in half a second."""
    found = [line("INIT_START", -2000), line("INIT_END", -1000, other="Finish initialization"), line("TRAIN_START", 0)]
    found += ["Epoch 1: 10it/s, whatever tqdm draws\r\n", *steps(count, batch, **more)]
    last = count * EVERY_MS
    found.append(line("EVALUATE", last, value={"global_steps": count, "eval_acc1": 0.7, "time": 0.1}))
    found.append(line("TRAIN_END", last))
    if end:
        value = {"e2e_time": last / 1000 + 2, "converged": converged, "num_trained_samples": count * batch}
        found.append(line("FINISHED", last, value={**value, "raw_train_time": last / 1000}))
    return "".join(found)


def put(top: Path, case: str, text: str, round: int = 1, host: str = "10.1.2.3", node: int = 0, rank: int = 0) -> Path:
    """Where FlagPerf would have written it; gives its folder."""
    folder = top / "run20221121120000" / case / f"round{round}" / f"{host}_noderank{node}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rank{rank}.out.log").write_text(text)
    return folder


def monitors(folder: Path, zone_hours: int = 8) -> None:
    """A host's and two cards' monitors, on a clock that is ahead of UTC."""
    cpu, cards = [], []
    for second in range(0, 60, 5):
        clock = time.gmtime(START_MS / 1000 - 30 + second + zone_hours * 3600)
        stamp = time.strftime("%Y-%m-%d-%H:%M:%S", clock)
        cpu.append(f"{stamp}\t0.25\n")
        cards.append(f"{stamp}\n31C 55W 1024MiB 40536MiB 97%\n33C 65W 2048MiB 40536MiB 50%\n\n")
    (folder / "cpu_monitor.log").write_text("".join(cpu) + "mpstat: command not found\n")
    (folder / "nvidia_monitor.log").write_text("".join(cards))
