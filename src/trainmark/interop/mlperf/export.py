"""Our runs as the folders of an MLPerf submission in the open division: logs, system descriptions, and a score."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.interop.mlperf.reading import MARK, WORKLOADS
from trainmark.interop.mlperf.system import describe
from trainmark.interop.reading.records import clean
from trainmark.interop.writing.runs import Clock, Done, Heard, Output, real, rounds
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

# The last rules that have the benchmark, and how many runs they want.
RULES = {"resnet": ("4.0.0", 5), "bert": ("5.0.0", 10)}
UNCHECKED = "MLLOG format, not compliance-checked"
_BENCHMARKS = {ours: theirs for theirs, ours in WORKLOADS.items()}


def export(runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:
    out, org = Output(path), clean(options.get("org") or "unknown")
    groups: dict[tuple[str, str], list[Done]] = {}
    for run in runs:
        for done in rounds(run):
            key = done.case.id
            # Cases that differ in a parameter only are different systems in these folders.
            name = f"{key.device}_{key.nnodes}x{key.nproc}" + "".join(f"_{k}{v}" for k, v in key.variant)
            system = clean(options.get("system") or name)
            groups.setdefault((system, _BENCHMARKS.get(key.workload, key.workload)), []).append(done)
    for (system, benchmark), tried in groups.items():
        describe(out, org, system, tried[0])
        _results(out, org, system, benchmark, tried)
    return out.written


def _results(out: Output, org: str, system: str, benchmark: str, tried: list[Done]) -> None:
    folder = f"{org}/results/{system}/{benchmark}"
    logs: list[dict[str, Any]] = []
    for number, done in enumerate(tried):
        log = _Log(done, org, system, benchmark)
        text = log.text()
        out.write(f"{folder}/result_{number}.txt", text.encode())
        label = compliance(text, benchmark) if log.evaluated else UNCHECKED
        logs.append({"file": f"result_{number}.txt", "minutes": log.minutes, "state": str(done.state), "label": label})
    minutes = [log["minutes"] if log["state"] == JobState.SUCCEEDED else None for log in logs]
    score = {
        "benchmark": benchmark,
        "label": UNCHECKED if any(log["label"] == UNCHECKED for log in logs) else logs[0]["label"],
        "note": "Not an MLPerf result: those are reviewed and published by MLCommons.",
        "time_to_train_minutes": olympic(minutes),
        "method": "mean without the fastest and the slowest; a run that failed is the slowest",
        "runs": len(minutes),
        "runs_required": RULES[benchmark][1] if benchmark in RULES else None,
        "logs": logs,
    }
    out.write(f"{folder}/score.json", msgspec.json.format(msgspec.json.encode(score), indent=2) + b"\n")


def olympic(minutes: Sequence[float | None]) -> float | None:
    """The mean without the fastest and the slowest. None: too few runs, or more than one that failed."""
    good = sorted(value for value in minutes if value is not None)
    failed = len(minutes) - len(good)
    if len(minutes) < 3 or failed > 1:
        return None
    counted = good[1:] if failed else good[1:-1]
    return sum(counted) / len(counted)


def compliance(text: str, benchmark: str) -> str:
    """What MLCommons' own checker says of a log, where it is installed."""
    if benchmark not in RULES:
        return UNCHECKED
    try:
        from mlperf_logging.compliance_checker import mlp_compliance
    except ImportError:
        return UNCHECKED
    ruleset = RULES[benchmark][0]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        file = Path(folder) / "result.txt"
        file.write_text(text)
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            checker = mlp_compliance.make_checker("training", ruleset, quiet=True, werror=False)
            passed = mlp_compliance.main(str(file), f"training_{ruleset}/common.yaml", checker)[0]
        except Exception:  # It fails in many ways on what it does not expect.
            passed = False
        finally:
            logging.disable(before)
    return f"MLLOG format, passes the compliance checker {ruleset}, open division" if passed else UNCHECKED


class _Log:
    """The log of one round, as its first rank tells it."""

    def __init__(self, done: Done, org: str, system: str, benchmark: str) -> None:
        self.evaluated = False
        self.minutes: float | None = None
        self._done, self._org, self._system, self._benchmark = done, org, system, benchmark
        self._clock = Clock()
        self._notes: dict[str, Any] = {}
        self._samples: float = 0
        self._epoch = 0
        self._in_block = False
        self._number = 0
        self._scale = 1
        self._batch: float | None = None
        self._started: int | None = None
        # When training went on: after the start, or after an evaluation.
        self._resumed = 0
        self._reached = True

    def text(self) -> str:
        events = [event for event in self._leading() if event.k != "BLOCK"]
        if not events:
            return ""
        self._learn(events)
        first = self._ms(events[0])
        lines = [*self._head(first)]
        for event in events:
            lines += self._lines(event, self._ms(event))
        lines += self._tail(events[-1])
        return "".join(lines)

    def _leading(self) -> Iterator[Heard]:
        for _, _, folder in self._done.nodes()[:1]:
            for event in self._done.heard(folder):
                self._clock.hear(event)
                if event.rank == 0:
                    yield event

    def _ms(self, event: Heard) -> int:
        return self._clock.ms(event.rank, event.t)

    def _learn(self, events: list[Heard]) -> None:
        for event in events:
            if event.k == "INIT_START":
                # Our ranks count their own samples; an imported log speaks for all.
                self._scale = 1 if event.scope == "global" else self._done.case.world or 1
            elif event.k == "NOTE" and event.name:
                self._notes[event.name] = event.value
            elif event.k == "EVALUATE" and _quality(event) is not None:
                self.evaluated = True
            elif event.k == "FINISHED" and isinstance(event.values, dict):
                self._reached = event.values.get("converged") is not False
        steps = [event for event in events if event.k == "STEP_END"]
        if steps:
            self._batch = (steps[-1].n or 0) * self._scale

    def _line(self, key: str, value: Any, t_ms: int, kind: str = "POINT_IN_TIME", **metadata: Any) -> str:
        self._number += 1
        where = {"file": "trainmark", "lineno": self._number, **metadata}
        record = {"namespace": "", "time_ms": t_ms, "event_type": kind, "key": key, "value": value, "metadata": where}
        return f"{MARK} {json.dumps(record)}\n"

    def _head(self, t_ms: int) -> Iterator[str]:
        params = self._done.case.params
        yield self._line("submission_benchmark", self._benchmark, t_ms)
        yield self._line("submission_org", self._org, t_ms)
        yield self._line("submission_division", "open", t_ms)
        yield self._line("submission_status", "onprem", t_ms)
        yield self._line("submission_platform", self._system, t_ms)
        # trainmark starts every round with a process and data of its own; it does not clear the kernel's caches.
        yield self._line("cache_clear", False, t_ms)
        # The size of the data, null where the program did not note it.
        for name in ("train_samples", "eval_samples"):
            yield self._line(name, self._notes.get(name, params.get(name)), t_ms)
        if self._batch:
            yield self._line("global_batch_size", round(self._batch), t_ms)

    def _lines(self, event: Heard, t_ms: int) -> Iterator[str]:
        kind = event.k
        if kind == "INIT_START":
            yield self._line("init_start", None, t_ms, "INTERVAL_START")
        elif kind == "TRAIN_START":
            yield self._line("init_stop", None, t_ms, "INTERVAL_END")
            self._started = self._resumed = t_ms
            yield self._line("run_start", None, t_ms, "INTERVAL_START")
        elif self._started is None:
            return
        elif kind == "STEP_END":
            if not self._in_block:
                yield from self._block(self._resumed, "start")
            self._samples += (event.n or 0) * self._scale
        elif kind == "PHASE_BEGIN" and event.name == "evaluate":
            yield from self._close(t_ms)
            yield self._line("eval_start", None, t_ms, "INTERVAL_START", **self._place())
        elif kind == "PHASE_END" and event.name == "evaluate":
            self._resumed = t_ms
            yield self._line("eval_stop", None, t_ms, "INTERVAL_END", **self._place())
        elif kind == "EVALUATE" and (figure := _quality(event)) is not None:
            self._resumed = t_ms
            yield from self._close(t_ms)
            yield self._line("eval_accuracy", figure, t_ms, **self._place())
        elif kind == "TRAIN_END":
            yield from self._stop(t_ms)

    def _block(self, t_ms: int, what: str) -> Iterator[str]:
        if what == "start":
            self._epoch += 1
        self._in_block = what == "start"
        edge = "INTERVAL_START" if self._in_block else "INTERVAL_END"
        place = {"first_epoch_num": self._epoch, "epoch_count": 1, "samples_count": round(self._samples)}
        yield self._line(f"block_{what}", None, t_ms, edge, **place)

    def _close(self, t_ms: int) -> Iterator[str]:
        if self._in_block:
            yield from self._block(t_ms, "stop")

    def _place(self) -> dict[str, Any]:
        """A block between two evaluations takes the place of an epoch."""
        return {"epoch_num": max(1, self._epoch), "samples_count": round(self._samples)}

    def _stop(self, t_ms: int) -> Iterator[str]:
        yield from self._close(t_ms)
        if self._started is None:
            return
        status = "success" if self._done.state is JobState.SUCCEEDED and self._reached else "aborted"
        yield self._line("run_stop", None, t_ms, "INTERVAL_END", status=status, **self._place())
        self.minutes = (t_ms - self._started) / 60_000
        if self.minutes > 0:
            value = {"throughput": self._samples / self.minutes / 60}
            yield self._line("tracked_stats", value, t_ms, samples_count=round(self._samples))
        self._started = None

    def _tail(self, last: Heard) -> Iterator[str]:
        """A round that was cut off stops where it was last heard of."""
        return self._stop(self._ms(last))


def _quality(event: Heard) -> float | None:
    """What MLPerf calls accuracy: the figure of that name, else the first."""
    values = event.values if isinstance(event.values, dict) else {}
    named = [values[name] for name in ("accuracy", "eval_accuracy", "mlm_accuracy", "acc1") if name in values]
    figures = [real(value) for value in [*named, *values.values()]]
    return next((figure for figure in figures if figure is not None and figure - figure == 0), None)
