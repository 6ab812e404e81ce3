"""Logs as DLPerf's programs print them, with known truth: step i takes 0.2 + 0.002 · i seconds unless told another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

Duration = Callable[[int], float]


def growing(step: int) -> float:
    return round(0.2 + 0.002 * step, 3)


class Run:
    """One training: times and rates of its steps, `samples` in each."""

    def __init__(self, steps: int, samples: int = 128, duration: Duration = growing, start: str = "12:00:00") -> None:
        self.steps, self.samples = range(1, steps + 1), samples
        self.last = steps
        self.seconds = {step: duration(step) for step in self.steps}
        self._begin = datetime.fromisoformat(f"2020-09-01T{start}")
        self._ends: dict[int, float] = {}
        total = 0.0
        for step in self.steps:
            total += self.seconds[step]
            self._ends[step] = total

    def rate(self, first: int, last: int | None = None) -> float:
        """Samples a second over a block of steps."""
        steps = range(first, (last or first) + 1)
        return self.samples * len(steps) / sum(self.seconds[step] for step in steps)

    def at(self, step: int) -> datetime:
        return self._begin + timedelta(seconds=round(self._ends[step], 6))

    def comma(self, step: int) -> str:
        return self.at(step).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]

    def point(self, step: int) -> str:
        return self.at(step).strftime("%Y-%m-%d %H:%M:%S.%f")

    def clock(self, step: int) -> str:
        return self.at(step).strftime("%H:%M:%S.%f")

    def unix(self, step: int) -> float:
        return 1598961600 + round(self._ends[step], 6)


def mindspore(run: Run, bert: bool = False) -> str:
    lines = []
    for epoch in range(1, run.last // 10 + 1):
        last = epoch * 10
        ms = sum(run.seconds[step] for step in range(last - 9, last + 1)) * 1000
        head = f"epoch: {epoch}, current epoch percent: 0.5, step: {last}, outputs are (1.0)" if bert else ""
        lines.append(head or f"epoch: {epoch} step: 10, loss is 6.9")
        lines.append(f"epoch time: {ms:.3f} ms, per step time: {ms / 10:.3f} ms")
    return "\n".join(lines) + "\n"


def every(run: Run, line: Callable[[int], str], first: int = 1, step: int = 1) -> str:
    return "".join(line(i) + "\n" for i in run.steps if i >= first and i % step == 0)


def ngc_mxnet(run: Run) -> str:
    return every(
        run, lambda i: f"{run.comma(i)} - INFO - Epoch[0] Batch [{i - 1}] Speed: {run.rate(i):.2f} samples/sec"
    )


def gluon_resnet(run: Run) -> str:
    return every(run, lambda i: f"Epoch[0] Batch[{i - 1}] Speed: {run.rate(i):.2f} samples/sec accuracy=0.1")


def gluon_bert(run: Run) -> str:
    return every(
        run,
        lambda i: f"[step {i}] mlm_loss=7.5 throughput={1.0:.1f}K tks/s latency={1000 * run.seconds[i]:.2f} ms/batch",
    )


def arcface(run: Run) -> str:
    def line(i: int) -> str:
        return f"INFO:root:Epoch[0] Batch [{i - 20}-{i}] Speed: {run.rate(i):.2f} samples/sec acc=0.0"

    return every(run, line, step=20)


def partialfc(run: Run) -> str:
    return every(run, lambda i: f"Rank: 0 Iter: {i} Loss: 40.1 Total:{run.rate(i):.2f} it/sec")


def ngc_pytorch_resnet(run: Run) -> str:
    return every(
        run, lambda i: f"DLL {run.point(i)} - Epoch: 0 Iteration: {i}  train.loss : 7.1 train.total_ips : 1 img/s"
    )


def ngc_pytorch_bert(run: Run) -> str:
    return every(
        run,
        lambda i: f"DLL {run.point(i)} - Training Epoch: 0 Training Iteration: {i}  average_loss : 11.2  lr : 1",
    )


def ngc_tf_resnet(run: Run, first: int = 21) -> str:
    return every(run, lambda i: f"DLL {run.point(i)} - Iteration: {i}  imgs_per_sec : {run.rate(i):.2f} img/s", first)


def ngc_tf_bert(run: Run) -> str:
    def line(i: int) -> str:
        return f"DLL {run.point(i)} - Iteration: {i}  throughput_train : {run.rate(i - 9, i):.2f} seq/s mlm_loss : 1"

    return every(run, line, step=10)


def paddle_resnet(run: Run) -> str:
    def line(i: int) -> str:
        return f"{run.comma(i)}-INFO: [Pass 0, train batch {i - 1}] loss 7.1, acc1 0.0, elapse {run.seconds[i]:.3f} sec"

    return every(run, line)


def paddle_bert(run: Run, batch: int = 128) -> str:
    def line(i: int) -> str:
        # As precise as the rates in the other logs: two digits of samples a second.
        speed = round(run.samples / run.seconds[i], 2) / batch / (run.samples // batch)
        return f"epoch: 0, progress: 0/1, step: {i}, loss: 9.1, ppl: 9, speed: {speed:.8f} steps/s, file: part-0"

    return every(run, line)


def pytorch_resnet(run: Run) -> str:
    return every(
        run,
        lambda i: f"Epoch: [0][{i - 1:4d}/5005]\tTime {run.seconds[i]:6.3f} ( 0.300)\tData  0.010 ( 0.010)\tLoss 7.0",
    )


def tf2_resnet(run: Run) -> str:
    def line(i: int) -> str:
        seconds = sum(run.seconds[step] for step in range(i - 99, i + 1))
        return (
            f"I0901 {run.clock(i)} 140 keras_utils.py:145] TimeHistory: {seconds:.2f} seconds, "
            f"{run.rate(i - 99, i):.2f} examples/second between steps {i - 100} and {i}"
        )

    return every(run, line, step=100)


def tf2_bert(run: Run) -> str:
    return every(run, lambda i: f"I0901 {run.clock(i)} 140 utils.py:444] Train Step: {i}/1000  / loss = 8.1")


def oneflow_insightface(run: Run) -> str:
    return every(run, lambda i: f"train: iter {i}, loss 41.2, throughput: {run.rate(i):.2f}")


def oneflow_resnet(run: Run) -> str:
    return every(run, lambda i: f"train: epoch 0, iter {i}, loss: 7.0, top_1: 0.0, samples/s: 384.1 {run.unix(i):.6f}")


def oneflow_bert(run: Run) -> str:
    return every(run, lambda i: f"step: {i - 1} , total_loss: 11.1 , throughput: 149.2 , {run.unix(i):.6f}")


def put(top: Path, text: str, case: str = "1n1g", repeat: int = 1, name: str = "rn50", batch: int = 128) -> Path:
    """Writes a log where DLPerf would; gives the folder that its scripts are called with."""
    file = top / f"bz{batch}" / case / f"{name}_b{batch}_fp32_{repeat}.log"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return top / f"bz{batch}"
