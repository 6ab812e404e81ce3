"""DLPerf's extraction scripts as a table: which lines each counts, what it takes from them, and how it computes.

The formulas give DLPerf's own numbers, faults included, for `--method dlperf`. docs/interop.md lists those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Literal

import msgspec

from trainmark.spec.log_lines import BY_NAME, Pattern


class DlPerfJob(msgspec.Struct, frozen=True):
    """What the names say: batch per device, nodes, devices per node."""

    batch: int
    nodes: int
    cards: int
    # Where a log tells it.
    of_a_step: int | None = None

    @property
    def ranks(self) -> int:
        return self.nodes * self.cards

    @property
    def samples(self) -> int:
        """In one step of all devices."""
        return self.of_a_step or self.batch * self.ranks


class Crash(Exception):
    """The original script ends with an error on such a log."""


# Values of counted lines, warm-up, end, job → samples per second.
Formula = Callable[[Sequence[float], int, int, DlPerfJob], float | None]


class Script(msgspec.Struct, frozen=True):
    """One script. `least`: lines whose own number is not above it are not counted."""

    name: str
    framework: str
    workload: str
    needs: tuple[str, ...]
    value: str
    formula: Formula
    warmup: int = 20
    train: int = 120
    kind: Literal["number", "date", "clock"] = "number"
    index: str = ""
    least: int = -1
    # Lines picked by their own number: how the script spells warm-up and end.
    edges: tuple[str, str] | None = None
    # Added to the script's own numbers of steps, where it takes those of a log that counts from 0.
    shift: int = 0
    pattern_name: str = ""
    # Digits of average_speed.
    digits: int = 2
    result: Literal["speed", "latency", "losses"] = "speed"

    @property
    def pattern(self) -> Pattern:
        return BY_NAME[self.pattern_name or self.name.removesuffix("-time")]


def _mean(values: Sequence[float]) -> float:
    """NumPy's mean of nothing is not a number, and the scripts go on with it."""
    return fmean(values) if values else float("nan")


def _rows(first: int) -> Formula:
    """A matrix of steps × ranks: median over ranks, mean over steps. The script's slip: W beyond `first` is halved."""

    def speed(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
        ranks = 1 if first < 0 else job.ranks
        edge = abs(first)
        if len(values) < train * ranks:
            raise Crash(f"cannot make {train} × {ranks} of {len(values)} lines")
        begin = edge if warmup <= edge else warmup - edge
        rows = [median(values[row * ranks : (row + 1) * ranks]) for row in range(train)]
        return _mean(rows[begin:])

    return speed


def _slice(per: int = 1, shift: int = 0, least: int = 0) -> Formula:
    """The mean of the rates on lines W … T, where a line stands for `per` steps."""

    def speed(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:  # noqa: ARG001
        begin, end = (warmup - shift) // per, (train - shift) // per
        return _mean(values[max(least, begin) : end])

    return speed


def _span(
    begin: Callable[[int, int], int], end: Callable[[int, int], int], steps: Callable[[int, int], int]
) -> Formula:
    """Samples ÷ the time between two counted lines (from 1; of all ranks)."""

    def speed(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
        first, last = begin(warmup, job.ranks), end(train, job.ranks)
        if len(values) < last:
            return 0.0
        seconds = values[last - 1] - values[first - 1]
        return job.samples * steps(warmup, train) / seconds if seconds else 0.0

    return speed


def _strict(formula: Formula) -> Formula:
    """Where the script ends with an error instead of recording 0."""

    def speed(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
        found = formula(values, warmup, train, job)
        if found == 0.0:
            raise Crash(f"only {len(values)} lines")
        return found

    return speed


def _edges(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
    """Samples ÷ the time between two lines found by their numbers; `values` holds those two times."""
    if len(values) < 2:
        return 0.0
    return job.samples * (train - warmup) / (values[1] - values[0]) if values[1] != values[0] else 0.0


def _strict_edges(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
    if len(values) < 2:
        raise Crash("first or last step of the window is not there")
    return _edges(values, warmup, train, job)


def _times(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
    total = sum(values[warmup:train]) if len(values) >= train else 0.0
    return job.samples * (train - warmup) / total if total else 0.0


def epochs(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:
    """MindSpore: the times of all ranks added up. Nothing found: the file is passed over."""
    total = sum(values)
    return job.samples / (total / 1000 / ((train - warmup) * job.ranks)) if total else None


def _inclusive(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:  # noqa: ARG001
    return _mean(values[warmup - 1 : train]) if len(values) >= train else 0.0


def _after(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:  # noqa: ARG001
    return _mean(values[warmup - 1 :])


def thousand(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:  # noqa: ARG001
    """Milliseconds per iteration: seconds between the first iteration and the one a thousand later."""
    return values[1] - values[0] if len(values) == 2 else None


def _inner(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:  # noqa: ARG001
    return _mean(values[1:-1])


def _hundreds(values: Sequence[float], warmup: int, train: int, job: DlPerfJob) -> float | None:  # noqa: ARG001
    return 1000 * _mean(values) / 100


_TF = ("Iteration: ",)
_STAMP = r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+)"
_CLOCK = r"(\d\d:\d\d:\d\d\.\d{6})"
_SPEED = r"Speed: *(\d+.\d+) samples/sec"
_line = _span(lambda w, _: w, lambda t, _: t, lambda w, t: t - w)

# fmt: off
TABLE: tuple[Script, ...] = (
    Script("mindspore-resnet50", "mindspore", "resnet50", ("epoch time:",), r"epoch time: *(\d+.\d{3})", epochs),
    Script("mindspore-bert", "mindspore", "bert", ("epoch time:",), r"epoch time: *(\d+.\d{3})", epochs),
    Script("arcface", "mxnet", "arcface", ("INFO:root:", "[0] Batch"), _SPEED, _slice(20)),
    Script("ngc-mxnet-resnet50", "mxnet", "resnet50", (" Epoch[0] Batch ",), _SPEED, _rows(20)),
    Script("ngc-mxnet-resnet50-time", "mxnet", "resnet50", (" Epoch[0] Batch ",), _STAMP, _strict(
        _span(lambda w, r: max(20, w) * r, lambda t, r: t * r, lambda w, t: t - max(20, w))), kind="date"),
    Script("gluon-resnet50", "mxnet", "resnet50", ("Epoch[0] Batch[",), _SPEED, _rows(-20)),
    Script("gluon-bert", "mxnet", "bert", ("throughput=",), r"latency=(\d+.\d+) ?ms/batch", _rows(100), 100, 200),
    Script("partialfc", "mxnet", "partialfc", ("Rank:", "Total:"), r"Total: *(\d+.\d+) *it/sec", _after),
    Script("ngc-pytorch-bert", "pytorch", "bert", ("Training Epoch: ", "Training Iteration: "), _STAMP, _line, 20, 110,
           kind="date", index=r"Training Iteration: *(\d+) +average_loss", least=5),
    Script("ngc-tf-bert", "tensorflow", "bert", (" throughput_train ", "Iteration: "),
           r"throughput_train *: *(\d+.\d+) seq/s", _slice(10), digits=4),
    Script("ngc-tf-bert-time", "tensorflow", "bert", (" throughput_train : ",), _STAMP, _edges, kind="date",
           edges=("Iteration: {}", "Iteration: {}"), digits=4),
    Script("ngc-tf-resnet50", "tensorflow", "resnet50", (" imgs_per_sec ",), r" imgs_per_sec *: *(\d+.\d+) ",
           _slice(1, 20)),
    Script("ngc-tf-resnet50-time", "tensorflow", "resnet50", (" imgs_per_sec ",), _STAMP, _strict(
        _span(lambda w, _: w - 19, lambda t, _: t - 20, lambda w, t: t - w - 1)), kind="date"),
    Script("ngc-pytorch-resnet50", "pytorch", "resnet50", _TF, _STAMP, _line, kind="date",
           index=r"Iteration: *(\d+)", least=5),
    Script("paddle-resnet50", "paddle", "resnet50", ("elapse",), r"elapse *:? *(\d+.\d+) *sec", _slice()),
    Script("paddle-resnet50-time", "paddle", "resnet50", ("elapse",), _STAMP, _edges, kind="date",
           edges=("train batch {}]", "train batch {}]")),
    Script("paddle-bert", "paddle", "bert", ("speed:",), r" speed: *(\d+.\d+) steps/s", _slice()),
    Script("pytorch-resnet50", "pytorch", "resnet50", ("Epoch: ",), r"(\d.\d{1,3}) ", _times,
           index=r"\]\[ *(\d+)/", least=5),
    Script("tf2-resnet50", "tensorflow", "resnet50", ("TimeHistory",), r", (\d+.\d+) examples/second ?",
           _slice(100, 0, 1), 100, 600),
    Script("tf2-resnet50-time", "tensorflow", "resnet50", ("TimeHistory",), _CLOCK,
           _span(lambda w, _: max(1, w // 100), lambda t, _: t // 100, lambda w, t: t - w), 100, 600, kind="clock"),
    Script("tf2-bert", "tensorflow", "bert", ("Train Step:",), _CLOCK,
           _span(lambda w, _: max(20, w), lambda t, _: t, lambda w, t: t - w), kind="clock"),
    Script("oneflow-insightface", "oneflow", "insightface", ("train: iter ", "loss"), r"throughput: *(\d+.\d+)",
           _inclusive, index=r"train: iter *(\d+)", least=5),
    Script("oneflow-resnet50", "oneflow", "resnet50", ("train:",), r"\s([\d.]+)\s*$", _strict_edges,
           edges=("train: epoch \\d+,? iter {},? ", "train: epoch \\d+,? iter {},? ")),
    Script("oneflow-bert", "oneflow", "bert", ("step:",), r"\s([\d.]+)\s*$", _strict_edges, 19, 119,
           edges=("^step: *{}\\b", "^step: *{}\\b"), shift=1),
    Script("oneflow-wdl", "oneflow", "wide-deep", (" time ", " loss "), r"^\d+ time ([\d.]+) loss", thousand,
           edges=("first", "first + 1000"), result="latency"),
    Script("oneflow-wdl-models", "oneflow", "wide-deep", ("[rank:0] iter: ",), r"latency\(ms\): *([\d.]+)", _inner,
           result="latency"),
    Script("hugectr-wdl", "hugectr", "wide-deep", ("[HUGECTR]", "[RANK0]", "Iter: "),
           r"Time\(\d+ iters\): *([\d.]+) *s", _hundreds, 100, index=r"Iter: *(\d+)", least=100, result="latency"),
    Script("hugectr-losses", "hugectr", "wide-deep", ("Iter:", "Loss"), r"Loss: *(\S+)", _after,
           pattern_name="hugectr-wdl", result="losses"),
)
# fmt: on
BY_SCRIPT = {script.name: script for script in TABLE}
