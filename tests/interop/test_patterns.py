"""Lines of today's training programs, each as its own source prints it, and expressions of a user's own."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.errors import UserError
from trainmark.interop.reading import patterns
from trainmark.interop.reading.patterns import LONGEST_RECORD, LineReader, Reading
from trainmark.interop.reading.steps import Follower, Odd, Progress
from trainmark.spec.log_lines import BY_NAME, TABLE, Pattern, live

# (pattern, where the shape of the line is from, line, what it says)
LINES = [
    (
        "megatron-lm",
        "NVIDIA/Megatron-LM, training_log() in megatron/training/training.py",
        " [2025-05-27 15:23:07] iteration       11/   24000 | consumed samples:        11264 | "
        "elapsed time per iteration (ms): 2716.5 | throughput per GPU (TFLOP/s/GPU): 40.4 | "
        "learning rate: 1.5E-06 | global batch size:  1024 | lm loss: 1.192634E+01 | loss scale: 1.0 |",
        {"step": 11, "samples": 1024, "seconds": 2.7165, "loss": 11.92634},
    ),
    (
        "megatron-lm",
        "its port for Ascend (AscendSpeed), README of the LLaMA example, whose spelling of `global` is its own",
        " iteration  11/50000 | consumed samples: 5632 | consumed tokens:  11534336 | "
        "elapsed time per iteration (ms):  52728.1 | learning rate:    1.499E-05 | gloabl batch size:  512 "
        "| lm loss:  1.376514E+01 | loss scale:  65536.0 |",
        {"step": 11, "samples": 512, "seconds": 52.7281, "loss": 13.76514},
    ),
    (
        "deepspeed",
        "deepspeedai/DeepSpeed, ThroughputTimer in deepspeed/utils/timer.py, since 0.8",
        "[2024-07-17 19:53:24,981] [INFO] [timer.py:258:stop] epoch=0/micro_step=90/global_step=45, "
        "RunningAvgSamplesPerSec=16.12, CurrSamplesPerSec=16.81, MemAllocated=0.02GB, MaxMemAllocated=0.97GB",
        {"step": 45, "rate": 16.81},
    ),
    (
        "deepspeed",
        "the same before 0.7",
        "[2022-03-11 02:06:58,985] [INFO] [timer.py:189:stop] 0/40, SamplesPerSec=83.48, MemAllocated=0.26GB",
        {"step": 40, "rate": 83.48},
    ),
    (
        "nemo",
        "NVIDIA/NeMo 2, progress printer; the shape is in NVIDIA/dgxc-benchmarking's recipes",
        "Training epoch 0, iteration 49/99 | lr: 4.491e-06 | global_batch_size: 256 | global_step: 49 | "
        "peak_memory_usage: 72972500992 | reduced_train_loss: 12.81 | "
        "train_step_timing in s: 2.693 | consumed_samples: 12800",
        {"step": 50, "samples": 256, "seconds": 2.693, "loss": 12.81},
    ),
    (
        "torchtitan",
        "pytorch/torchtitan, torchtitan/components/metrics.py",
        "[rank0]:[titan] 2025-03-12 11:10:21,511 - root - INFO - step: 22  loss:  6.2250  grad_norm:  0.8  "
        "memory:  1.41GiB(1.79%)  tps: 193,831  tflops: 18.36  mfu: 1.86%",
        {"step": 22, "rate": 193831.0, "loss": 6.225},
    ),
    (
        "mindformers",
        "MindFormers, mindformers/core/callback/callback.py, as in its documentation of training",
        "2025-04-07 15:34:29,173 - [mindformers/core/callback/callback.py:529] - INFO - "
        "{ Epoch:[  1/  2], step:[    2/   19], loss: 10.633, per_step_time: 1752ms, lr: 1e-05, overflow cond: False",
        {"step": 2, "seconds": 1.752, "loss": 10.633},
    ),
    (
        "mindformers",
        "the same, on a rank that does not know the loss",
        "{ step:[    1/   10], loss: N/A (non-last PP stage, refer to last stage for real loss), "
        "per_step_time:  13570ms }",
        {"step": 1, "seconds": 13.57, "loss": None},
    ),
    (
        "paddlenlp",
        "PaddlePaddle/PaddleNLP, paddlenlp/trainer; its old interval_samples_per_second counts a step as a sample",
        "[2022-08-31 16:19:17,556] [    INFO] - loss: 2.785, learning_rate: 2.99e-05, global_step: 20, "
        "interval_runtime: 1.5474, interval_samples_per_second: 5.17, interval_steps_per_second: 6.4, epoch: 0.05",
        {"step": 20, "seconds": 1.5474, "loss": 2.785},
    ),
]


@pytest.mark.parametrize(("name", "source", "line", "expected"), LINES)
def test_lines_of_today(name: str, source: str, line: str, expected: dict[str, float]) -> None:
    found = LineReader(BY_NAME[name]).read(line)
    assert found is not None, source
    assert {key: getattr(found, key) for key in expected} == pytest.approx(expected)


@pytest.mark.parametrize("pattern", TABLE, ids=lambda pattern: pattern.name)
def test_no_line_is_taken_for_another_kind(pattern: Pattern) -> None:
    for name, _, line, _ in LINES:
        assert (LineReader(pattern).read(line) is None) == (name != pattern.name), line


def follow(pattern: Pattern, lines: list[str], batch: float | None = None, devices: int = 1) -> list[Progress | Odd]:
    reader, follower = LineReader(pattern), Follower(pattern, batch, devices)
    return [follower.take(found) for line in lines if (found := reader.read(line)) is not None]


def test_tokens_of_all_devices() -> None:
    line = "[titan] 2025-03-12 11:10:{:02d},000 - root - INFO - step: {:2d}  loss:  6.2  tps: 1,000  mfu: 1%"
    _, second = follow(BY_NAME["torchtitan"], [line.format(0, 10), line.format(5, 20)], devices=8)
    assert isinstance(second, Progress) and (second.steps, second.seconds, second.samples) == (10, 5.0, 40_000)


def test_intervals_stand_for_all_their_steps() -> None:
    line = (
        "loss: 1.0, learning_rate: 1, global_step: {}, interval_runtime: {}, interval_samples_per_second: 1, epoch: 1"
    )
    taken = follow(BY_NAME["paddlenlp"], [line.format(10, 2.5), line.format(20, 2.0), line.format(40, 4.0)], batch=8)
    told = [(one.steps, one.samples, one.seconds) for one in taken if isinstance(one, Progress)]
    # How many steps the first line stands for is not told: never more than the pattern says.
    assert told == [(1, 8, 2.5), (10, 80, 2.0), (20, 160, 4.0)]


def test_a_watcher_gets_what_it_can_use() -> None:
    line = {name: line for name, _, line, _ in reversed(LINES)}
    found = {}
    for name in line:
        regex, scale, first = live(BY_NAME[name])
        match = re.search(regex, line[name])
        assert match is not None
        found[name] = (match.groupdict(), scale, first)
    assert found["megatron-lm"] == (
        {"step": "11", "seconds": "2716.5", "samples": "1024", "loss": "1.192634E+01"},
        {"seconds": 0.001},
        1,
    )
    # A rate of one device, and the time of many steps, are left to the watcher's own clock.
    assert found["torchtitan"] == ({"step": "22", "loss": "6.2250"}, {}, 1)
    assert found["paddlenlp"] == ({"step": "20", "loss": "2.785"}, {}, 1)
    assert found["nemo"][2] == 0


def test_an_expression_of_ones_own() -> None:
    own = patterns.get(r"it (?P<step>\d+) .* (?P<rate>[\d.]+) img/s")
    (_, two) = follow(own, ["it 1 loss 3 at 64.0 img/s", "noise", "it 2 loss 3 at 32.0 img/s"], batch=32)
    assert isinstance(two, Progress) and (two.step, two.samples, two.seconds) == (2, 32, 1.0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("megatron", "did you mean `megatron-lm`"),
        (r"(?P<step>\d+", "no regular expression"),
        (r"(?P<speed>\d+)", "group `speed`"),
        (r"(?P<step>\d+) (?P<loss>\d+)", "tells no time"),
    ],
)
def test_bad_expressions(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint.replace("`", ".")):
        patterns.get(text)


NUMBERS = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0, 100))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(TABLE),
    st.lists(
        st.builds(
            Reading,
            step=st.one_of(st.none(), st.integers(-5, 500), st.just(10**14)),
            epoch=st.one_of(st.none(), st.integers(0, 3)),
            samples=NUMBERS,
            seconds=NUMBERS,
            rate=NUMBERS,
            steps_per_second=NUMBERS,
            stamp=NUMBERS,
            day=st.booleans(),
        ),
        max_size=20,
    ),
    st.one_of(st.none(), st.integers(1, 1024)),
)
def test_whatever_lines_say_time_and_steps_only_grow(pattern: Pattern, said: list[Reading], batch: int | None) -> None:
    follower = Follower(pattern, batch)
    taken = [one for one in map(follower.take, said) if isinstance(one, Progress)]
    for before, after in pairwise(taken):
        assert after.step == before.step + after.steps and after.steps > 0
        assert after.at >= before.at and after.seconds is not None and after.seconds >= 0
    assert all(one.samples >= 0 and abs(one.at * 1e9) < 2**63 for one in taken)


@pytest.mark.parametrize("pattern", TABLE, ids=lambda pattern: pattern.name)
def test_no_line_keeps_a_pattern_busy(pattern: Pattern) -> None:
    """Pieces of good lines, repeated without an end: found or not, the answer comes at once."""
    reader = LineReader(pattern)
    pieces = [
        *pattern.needs,
        *(line for _, _, line, _ in LINES),
        "1",
        "1.",
        " ",
        "1 ",
        "2020-09-01 12:00:00 ",
        "\\x1b[0m",
    ]
    whole = " ".join(pattern.needs)
    begin = time.process_time()
    for piece in pieces:
        for cut in (len(piece), max(1, len(piece) * 2 // 3)):
            reader.read((whole + piece[:cut] * 5000)[:LONGEST_RECORD])
            reader.read((piece[:cut] * 5000)[: LONGEST_RECORD - len(whole)] + whole)
    # Not a speed: what goes wrong here takes minutes.
    assert time.process_time() - begin < 20
