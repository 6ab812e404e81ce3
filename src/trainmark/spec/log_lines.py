"""The table of training log lines, and patterns that users give.

A line is described by what is printed; docs/interop.md tells where each format is documented. In the expressions of the
table `<step>` stands for a named group with the usual number in it.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of

Clock = Literal["stamp", "seconds", "rate"]

_DATE = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?"
_GROUPS = {
    "step": r"(?P<step>\d+)",
    "epoch": r"(?P<epoch>\d+)",
    "samples": r"(?P<samples>\d+)",
    "rate": r"(?P<rate>[\d,.]+)",
    "steps_per_second": r"(?P<steps_per_second>[\d.]+)",
    "seconds": r"(?P<seconds>[\d.]+(?:[eE][-+]?\d+)?)",
    "ms": r"(?P<ms>[\d.]+)",
    "loss": r"(?P<loss>[-+0-9.eE]+|nan|inf|N/A)",
    "date": rf"(?P<stamp>{_DATE})",
    # A date that may be missing, and whatever follows it.
    "date?": rf"(?:(?P<stamp>{_DATE}).*?)?",
    "time?": r"(?:(?P<stamp>\d\d:\d\d:\d\d\.\d+).*?)?",
    "unix": r"(?P<stamp>\d+\.?\d*)",
}


class Pattern(msgspec.Struct, frozen=True):
    """One kind of line."""

    name: str
    title: str
    # All of these texts stand in the line: looked for first, because that is many times cheaper.
    needs: tuple[str, ...]
    regex: str
    # What its time is taken from first; where a line lacks it, the next of stamp, seconds, rate.
    clock: Clock
    unit: str = "samples"
    # Steps that one line stands for, where the lines before do not tell.
    every: int = 1
    # Steps count from 0 in the log.
    zero: bool = False
    # `seconds` and `ms` are of all steps since the last such line, not of one.
    whole: bool = False
    # `rate` is of one device, not of all.
    per_device: bool = False
    # A line that comes before and holds `step` and `epoch`; with `product` the step is their product.
    context: str = ""
    product: bool = False


def expand(text: str) -> str:
    """`<step>` → `(?P<step>\\d+)`, and so on; a group that is already spelled out stays."""
    return re.sub(r"(?<!\?P)<([a-z_]+\??)>", lambda found: _GROUPS.get(found[1], found[0]), text)


def _row(name: str, title: str, needs: tuple[str, ...], regex: str, clock: Clock, **more: object) -> Pattern:
    context = str(more.pop("context", ""))
    return Pattern(name, title, needs, expand(regex), clock, context=expand(context), **more)  # type: ignore[arg-type]


# fmt: off
TABLE: tuple[Pattern, ...] = (
    _row("mindspore-resnet50", "MindSpore TimeMonitor, step counted in its epoch", ("epoch time:",),
         r"epoch time: *<ms>", "seconds", every=10, whole=True, product=True,
         context=r"epoch: *<epoch>\D+step: *<step>(?:, *loss is *<loss>)?"),
    _row("mindspore-bert", "MindSpore TimeMonitor, step counted over all epochs", ("epoch time:",),
         r"epoch time: *<ms>", "seconds", every=10, whole=True, context=r"epoch: *\d+.*percent.*step: *<step>"),
    _row("arcface", "InsightFace ArcFace on MXNet", ("INFO:root:", "Batch", "Speed:"),
         r"INFO:root:(?:Epoch|Iter)\[<epoch>\] Batch *\[(?:\d+-)?<step>\].*?Speed: *<rate> samples/sec", "rate",
         every=20),
    _row("ngc-mxnet-resnet50", "NGC MXNet ResNet-50", (" Epoch[", "] Batch ", "Speed:"),
         r"<date?> Epoch\[<epoch>\] Batch *\[(?:\d+-)?<step>\].*?Speed: *<rate> samples/sec", "stamp", zero=True),
    _row("gluon-resnet50", "GluonCV ResNet-50", ("] Batch[", "Speed:"),
         r"Epoch\[<epoch>\] Batch\[<step>\].*?Speed: *<rate> samples/sec", "rate", zero=True),
    _row("gluon-bert", "GluonNLP BERT", ("throughput=", "latency="),
         r"step <step>\b.*?(?:loss=<loss>.*?)?latency=<ms> ?ms/batch", "seconds"),
    _row("partialfc", "InsightFace PartialFC on MXNet", ("Rank:", "Total:"),
         r"(?:[Ii]ter(?:ation)?[ :]+<step>.*?)?Total: *<rate> *it/sec", "rate"),
    _row("ngc-pytorch-bert", "NGC PyTorch BERT", ("Training Iteration: ", "average_loss"),
         r"<date>.*Training Iteration: *<step> +average_loss *: *<loss>", "stamp"),
    _row("ngc-tf-bert", "NGC TensorFlow BERT", (" throughput_train ", "Iteration: "),
         r"<date>.*Iteration: *<step> .*throughput_train *: *<rate>", "stamp", every=10),
    _row("ngc-tf-resnet50", "NGC TensorFlow ResNet-50", (" imgs_per_sec ",),
         r"<date>.*?(?:Iteration: *<step> .*?)? imgs_per_sec *: *<rate>", "stamp"),
    _row("ngc-pytorch-resnet50", "NGC PyTorch ResNet-50", ("Iteration: ",),
         r"<date>.*?(?:Epoch: *<epoch> +)?Iteration: *<step>(?:.*?train\.loss *: *<loss>)?", "stamp"),
    _row("paddle-resnet50", "PaddlePaddle ResNet-50", ("train batch ", "elapse"),
         r"<date?>Pass *<epoch>, train batch *<step>\](?:.*?loss *:? *<loss>)?.*?elapse *:? *<seconds> *sec",
         "stamp", zero=True),
    _row("paddle-bert", "PaddlePaddle BERT", (" speed: ", "steps/s"),
         r"step: *<step>(?:.*?loss: *<loss>)?.*? speed: *<steps_per_second> steps/s", "rate"),
    _row("pytorch-resnet50", "PyTorch examples ResNet-50", ("Epoch: ", "Time"),
         r"Epoch: *\[<epoch>\]\[ *<step>/\d+\].*?Time *<seconds>", "seconds", zero=True),
    _row("tf2-resnet50", "TensorFlow 2 ResNet-50", ("TimeHistory", "examples/second"),
         r"<time?>TimeHistory: *<seconds> seconds, *<rate> examples/second(?: between steps? \d+ and <step>)?",
         "stamp", every=100, whole=True),
    _row("tf2-bert", "TensorFlow 2 BERT", ("Train Step:",),
         r"<time?>Train Step: *<step>(?:.*?loss[^=:]*[=:] *<loss>)?", "stamp"),
    _row("oneflow-insightface", "OneFlow InsightFace", ("train: iter ", "throughput: "),
         r"train: iter *<step>, loss:? *<loss>,? .*?throughput: *<rate>", "rate"),
    _row("oneflow-resnet50", "OneFlow ResNet-50", ("train: epoch ", "iter "),
         r"^train: epoch *<epoch>,? iter *<step>,?(?: .*?loss: *<loss>)?.*\s<unix>\s*$", "stamp"),
    _row("oneflow-bert", "OneFlow BERT", ("step:",),
         r"^step: *<step>\b(?: .*?loss: *<loss>)?.*\s<unix>\s*$", "stamp", zero=True),
    _row("oneflow-wdl", "OneFlow Wide & Deep, benchmark repository", (" time ", " loss "),
         r"^<step> time <unix> loss <loss>", "stamp", zero=True),
    _row("oneflow-wdl-models", "OneFlow Wide & Deep, models repository", ("[rank:0] iter: ", "latency(ms): "),
         r"iter: *<step>/\d+, *loss: *<loss>, *latency\(ms\): *<ms>", "seconds", every=100),
    _row("hugectr-wdl", "HugeCTR, time of 100 iterations", ("[HUGECTR]", "Iter: ", "Time("),
         r"Iter: *<step> +Time\(\d+ iters\): *<seconds> *s(?:.*?Loss: *<loss>)?", "seconds", every=100, whole=True),
    # Programs of today. Their lines hold the global batch, or the user names it.
    _row("megatron-lm", "Megatron-LM and its kin", ("iteration ", "elapsed time per iteration (ms):"),
         r"iteration +<step>/ *\d+ \|.*?elapsed time per iteration \(ms\): *<ms>"
         r"(?:.*?glo(?:bal|abl) batch size: *<samples>)?(?:.*?\| (?:lm )?loss: *<loss>)?", "seconds"),
    _row("deepspeed", "DeepSpeed throughput timer", ("SamplesPerSec=", "stop] "),
         r"<date?>stop\] (?:epoch=\d+/micro_step=\d+/global_step=|\d+/)<step>,.*?(?<!Avg)SamplesPerSec=<rate>",
         "stamp", every=10),
    _row("nemo", "NeMo 2", ("Training epoch ", "train_step_timing in s:"),
         r"Training epoch <epoch>, iteration \d+/\d+.*?global_batch_size: *<samples>.*?global_step: *<step>"
         r".*?reduced_train_loss: *<loss>.*?train_step_timing in s: *<seconds>", "seconds", zero=True),
    _row("torchtitan", "torchtitan", ("step:", "loss:", "tps:"),
         r"<date?>step: *<step> .*?loss: *<loss>.*?tps: *<rate>", "stamp", unit="tokens", per_device=True),
    _row("mindformers", "MindFormers", ("step:[", "per_step_time:"),
         r"(?:Epoch:\[ *<epoch>/ *\d+\], *)?step:\[ *<step>/ *\d+\], *loss: *<loss>.*?per_step_time: *<ms> ?ms",
         "seconds"),
    _row("paddlenlp", "PaddleNLP Trainer", ("global_step:", "interval_runtime:"),
         r"loss: *<loss>.*?global_step: *<step>,.*?interval_runtime: *<seconds>", "seconds", whole=True),
)
# fmt: on
BY_NAME = {pattern.name: pattern for pattern in TABLE}


def live(pattern: Pattern) -> tuple[str, dict[str, float], int]:
    """For a program that is watched while it runs: expression, factors of its groups, number of the first step.

    Only `step`, `samples`, `seconds`, `rate` and `loss` are left, all of one step and of all devices: the watcher has a
    clock of its own, which is better than a group that means something else.
    """
    kept = {"step", "samples", "loss"}
    kept |= set() if pattern.whole else {"seconds", "ms"}
    kept |= set() if pattern.per_device else {"rate"}
    regex = re.sub(r"\(\?P<([a-z_]+)>", lambda found: found[0] if found[1] in kept else "(?:", pattern.regex)
    scale = {"seconds": 0.001} if "(?P<ms>" in regex else {}
    return regex.replace("(?P<ms>", "(?P<seconds>"), scale, 0 if pattern.zero else 1


# What an expression may name. Of one step: `samples`, `seconds`, `ms`. Per second: `rate`, `steps_per_second`.
GROUPS = ("step", "epoch", "samples", "seconds", "ms", "rate", "steps_per_second", "loss", "stamp")
LONGEST = 2000


def find_pattern(text: str, place: str) -> Pattern:
    """A line that comes live has a time of its own: unlike in a log, an expression need not tell one."""
    if text in BY_NAME:
        return BY_NAME[text]
    if "(?P<" not in text:
        raise UserError(
            f"{place}: no pattern `{text}`{did_you_mean(text, BY_NAME)}; there is {one_of(BY_NAME)}, "
            "or give a regular expression with named groups such as `step (?P<step>\\d+) .* (?P<rate>[\\d.]+) img/s`"
        )
    if len(text) > LONGEST:
        raise UserError(f"{place}: the expression has {len(text)} characters, allowed are {LONGEST}")
    try:
        groups = re.compile(text).groupindex
    except re.error as error:
        raise UserError(f"{place}: `{text}` is no regular expression: {error}") from None
    strange = [name for name in groups if name not in GROUPS]
    if strange:
        raise UserError(
            f"{place}: group `{strange[0]}`{did_you_mean(strange[0], GROUPS)}; allowed are {one_of(GROUPS)}"
        )
    return Pattern("own", "given as a regular expression", (), text, "seconds")
