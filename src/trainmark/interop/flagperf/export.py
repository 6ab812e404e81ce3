"""Our runs as FlagPerf would have left them: its folders, PerfLog lines, and monitor logs."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trainmark.devices.node_side.watch import NODE_HALVES
from trainmark.interop.flagperf.monitors import MIB
from trainmark.interop.writing.runs import Clock, Done, Heard, Losses, Output, real, rounds
from trainmark.report.figures import flag_codes
from trainmark.score.figures.attempt import RunScore
from trainmark.store.rundir import RunDir

_NS = 1e-9
_AGENT_LOG = "agent.log"
# All that FINISHED holds in FlagPerf's own cases; what a run does not tell is null.
FINISHED_KEYS = (
    "e2e_time",
    "converged",
    "init_time",
    "raw_train_time",
    "train_no_eval_time",
    "pure_training_computing_time",
    "throughput(ips)_raw",
    "throughput(ips)_no_eval",
    "throughput(ips)_pure_compute",
    "num_trained_samples",
    "global_steps",
    "final_loss",
)


def export(runs: Sequence[RunDir], path: Path) -> list[Path]:
    out = Output(path)
    for run in runs:
        created = time.gmtime(run.manifest().created / 1e9)
        top = f"run{time.strftime('%Y%m%d%H%M%S', created)}"
        for done in rounds(run):
            key = str(done.case.id).replace("/", "%2F")
            _round(out, f"{top}/{key}/round{done.round}", done)
    return out.written


def _round(out: Output, top: str, done: Done) -> None:
    samples, world = _samples_by_step(done), done.case.world or 1
    score = done.score()
    for index, host, folder in done.nodes():
        lead = index * max(1, world // max(1, len(done.case.nodes)))
        clock, losses = Clock(), Losses()
        writers: dict[int, _Rank] = {}
        lines: dict[int, list[str]] = {lead: []}
        for event in done.heard(folder):
            losses.hear(event)
        for event in done.heard(folder):
            clock.hear(event)
            if event.rank not in writers:
                writers[event.rank] = _Rank(done, event.rank, samples, score)
            lines.setdefault(event.rank, []).extend(writers[event.rank].lines(event, clock, losses))
        where = f"{top}/{host}_noderank{index}"
        for rank, told in sorted(lines.items()):
            out.write(f"{where}/rank{rank}.out.log", "".join(told).encode())
        out.write(f"{where}/start_{done.case.id.framework}_task.log", _start_log(done, index, folder))
        for name, text in _monitors(done, folder, clock, lead):
            out.write(f"{where}/{name}_monitor.log", text.encode())


def _start_log(done: Done, index: int, folder: Path) -> bytes:
    """FlagPerf's log of how a node's ranks were started: here what the agent of the node wrote, and how it ended."""
    head = f"case {done.case.id} round {done.round} node_rank {index}\n"
    try:
        said = (folder / _AGENT_LOG).read_bytes()
    except OSError:
        said = b""
    return head.encode() + said + f"{done.state}: {done.reason}\n".encode()


def _samples_by_step(done: Done) -> dict[int, int]:
    """Samples of all ranks up to the end of each step."""
    each: Counter[int] = Counter()
    for _, _, folder in done.nodes():
        for event in done.heard(folder):
            if event.k == "STEP_END" and event.step is not None:
                each[event.step] += event.n or 0
    total, found = 0, {}
    for step in sorted(each):
        total += each[step]
        found[step] = total
    return found


class _Rank:
    """Writes the log of one rank, and adds up what FINISHED needs."""

    def __init__(self, done: Done, rank: int, samples: dict[int, int], score: RunScore) -> None:
        self._done, self._rank, self._samples, self._score = done, rank, samples, score
        self._at: dict[str, int] = {}
        self._phase: dict[str, int] = {}
        self._spent: Counter[str] = Counter()
        # The last evaluation, and how long the one took that is not yet told of.
        self._evaluation: dict[str, Any] = {}
        self._evaluating: int | None = None
        self._step = 0

    def lines(self, event: Heard, clock: Clock, losses: Losses) -> Iterator[str]:
        self._at.setdefault(event.k, event.t)
        t_ms, kind = clock.ms(event.rank, event.t), event.k
        if kind in ("INIT_START", "TRAIN_START", "TRAIN_END"):
            yield self._line(kind, t_ms)
        elif kind == "INIT_END":
            yield self._line(kind, t_ms, other="Finish initialization")
        elif kind in ("EPOCH_BEGIN", "EPOCH_END"):
            yield self._line(kind, t_ms, epoch=event.epoch)
        elif kind == "PHASE_BEGIN" and event.name:
            self._phase[event.name] = event.t
        elif kind == "PHASE_END" and event.name in self._phase:
            took = event.t - self._phase.pop(event.name)
            self._spent[event.name] += took
            if event.name == "evaluate":
                self._evaluating = took
        elif kind == "STEP_END" and event.step is not None:
            self._step = event.step
            self._spent["data"] += event.data or 0
            value = {"loss": losses.by_step.get(event.step), "global_steps": event.step}
            yield self._line(kind, t_ms, value={**value, "num_trained_samples": self._samples.get(event.step)})
        elif kind in ("INIT_EVALUATION", "EVALUATE"):
            told = event.values if isinstance(event.values, dict) else {}
            self._evaluation = told
            if self._evaluating is not None and "time" not in told:
                told = {**told, "time": self._evaluating * _NS}
                self._evaluating = None
            named = {
                name if name.startswith("eval_") or name == "time" else f"eval_{name}": told[name] for name in told
            }
            step = event.step if event.step is not None else self._step
            yield self._line(kind, t_ms, value={"global_steps": step, **named})
        elif kind == "FINISHED":
            yield self._line(kind, t_ms, value=self._finished(event, losses))

    def _line(self, event: str, t_ms: int, **more: Any) -> str:
        metadata = {"file": f"{self._done.case.workload}.py", "lineno": 0, "time_ms": t_ms, "rank": self._rank}
        told = {name: _plain(value) for name, value in more.items() if value is not None}
        return f"[PerfLog] {json.dumps({'event': event, **told, 'metadata': metadata})}\n"

    def _between(self, first: str, last: str) -> float | None:
        if first not in self._at or last not in self._at:
            return None
        return (self._at[last] - self._at[first]) * _NS

    def _finished(self, event: Heard, losses: Losses) -> dict[str, Any]:
        said = event.values if isinstance(event.values, dict) else {}
        train = self._between("TRAIN_START", "TRAIN_END")
        no_eval = train - self._spent["evaluate"] * _NS if train is not None else None
        # Of our own steps data and phases are known; what is left is computing.
        rest = (self._spent["data"] + self._spent["checkpoint"]) * _NS
        pure = no_eval - rest if no_eval is not None and self._spent["data"] else None
        samples = self._samples.get(self._step)
        # What a report withholds, no log tells.
        given = self._score.reason is None
        figures = (
            self._between("INIT_START", "FINISHED"),
            said.get("converged"),
            self._between("INIT_START", "INIT_END"),
            train,
            no_eval,
            pure,
            *(samples / spent if given and samples and spent else None for spent in (train, no_eval, pure)),
            samples,
            self._step or None,
            losses.by_step.get(self._step),
        )
        known = dict(zip(FINISHED_KEYS, figures, strict=True))
        metrics = {f"final_{name.removeprefix('eval_')}": value for name, value in self._evaluated().items()}
        if known["final_loss"] is not None:
            metrics.pop("final_loss", None)
        unit = self._done.case.unit
        rate = {f"training_{unit}_per_second": known["throughput(ips)_raw"]} if unit != "steps" else {}
        told = {key: value for key, value in said.items() if value is not None and (given or not _is_rate(key))}
        flags = {"trainmark_flags": flag_codes(self._score.flags)} if self._score.flags else {}
        return {**known, **rate, **metrics, **told, **flags}

    def _evaluated(self) -> dict[str, Any]:
        told = self._evaluation
        return {name: value for name, value in told.items() if name != "time" and real(value) is not None}


def _is_rate(key: str) -> bool:
    return key.startswith("throughput") or key.endswith("_per_second")


def _plain(value: Any) -> Any:
    """As Python's own JSON writer has it: bare NaN and Infinity."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    return value


def _monitors(done: Done, folder: Path, clock: Clock, rank: int) -> Iterator[tuple[str, str]]:
    """(name, content) of each monitor log that the samples allow."""
    logs: dict[str, list[str]] = {}
    for sample in done.samples(folder):
        stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.gmtime(max(0, clock.ms(rank, sample["t"])) / 1000))
        for name, value in _host_values(sample):
            if value is not None:
                logs.setdefault(name, []).append(f"{stamp}\t{value:.4g}\n")
        cards = sample.get("devices")
        if isinstance(cards, list) and cards:
            rows = [row for row in map(_card, cards) if row]
            logs.setdefault(_vendor(done), []).append(f"{stamp}\n{''.join(rows)}\n")
    for name, lines in logs.items():
        yield name, "".join(lines)


def _vendor(done: Done) -> str:
    """Whose monitor writes such lines; an imported case knows the model of its device only."""
    return done.case.vendor if done.case.vendor in NODE_HALVES else "nvidia"


def _host_values(sample: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    used, free = real(sample.get("mem_used")), real(sample.get("mem_available"))
    yield "cpu", real(sample.get("cpu"))
    known = used is not None and free is not None and used + free > 0
    yield "mem", used / (used + free) if known else real(sample.get("mem"))  # type: ignore[operator]
    yield "pwr", real(sample.get("power_w"))


def _card(card: Any) -> str:
    names = ("temperature_c", "power_w", "memory_used", "memory_total", "utilisation")
    found = [real(card.get(name)) if isinstance(card, dict) else None for name in names]
    if None in found:
        # FlagPerf's line has no way to say that something is not known.
        return ""
    temperature, power, used, total, busy = (value or 0.0 for value in found)
    return f"{temperature:.0f}C {power:.0f}W {used / MIB:.0f}MiB {total / MIB:.0f}MiB {busy * 100:.0f}%\n"
