"""Steps read from what a program prints."""

from __future__ import annotations

import pytest

from tests.exec.conftest import Exec
from trainmark.i18n.speaker import say

TALKER = r"""
import sys, time
sys.stdout.buffer.write(b"\xff\x00 not text\n" + b"x" * 3000000 + b"\n")
for step in range(10, 101, 10):
    time.sleep(0.02)
    print("\x1b[32miteration %d/100 | time per iteration (ms): 250.0 | loss: %.3f\x1b[0m" % (step, 5 - step / 50))
    print("iteration of something else")
"""
EXPRESSION = r"iteration (?P<step>\d+)/.*\(ms\): (?P<ms>[\d.]+) \| loss: (?P<loss>\S+)"


def test_lines_become_steps_on_the_programs_own_clock(trainmark_exec: Exec) -> None:
    script = trainmark_exec.script("talk.py", TALKER)
    found = trainmark_exec("--pattern", EXPRESSION, "--batch", "4", "--", "python", script)
    assert found.counts(0) == (100, 400)
    # The window leaves out the first tenth: 90 steps of 0.25 s, 4 samples each.
    assert found.value("throughput") == pytest.approx(16.0)
    assert [event["loss"] for event in found.steps(0) if "loss" in event][-1] == 3.0


def test_arrival_times_serve_when_the_program_tells_none(trainmark_exec: Exec) -> None:
    script = trainmark_exec.script("talk.py", TALKER)
    found = trainmark_exec("--pattern", r"iteration (?P<step>\d+)/", "--steps", "50", "--", "python", "-u", script)
    assert found.state == ("SUCCEEDED", "ended after 50 steps as asked")
    assert found.counts(0)[0] == 50
    assert "how many samples a step trains is not known" in say(found.case["measurements"]["throughput"]["reason"])
    assert found.value("samples") is None


def test_a_pattern_without_an_end_does_not_hold_the_agent(trainmark_exec: Exec) -> None:
    script = trainmark_exec.script("talk.py", "print('a' * 60)\nprint('step 1')\n")
    found = trainmark_exec("--pattern", r"^(a+)+b|step (?P<step>\d+)", "--batch", "1", "--", "python", script)
    assert found.counts(0) == (1, 1)
    assert any("the pattern took more than" in note for note in [say(one) for one in found.case["notes"]])


def test_numbers_that_are_none_and_lines_of_other_ranks_are_no_steps(trainmark_exec: Exec) -> None:
    lines = ["step nan took 0.5", "step inf took 0.5", "step 1 took 0.5", "step 2 took 0.5"]
    lines += [f"step {step - late} took 0.5" for step in range(3, 61) for late in (0, 1)]  # two ranks, one behind
    lines += [f"step {step} took 0.5" for step in range(1, 21)]  # another epoch
    lines += ["step 900000000 took 0.5", "step 900000001 took 0.5"]
    script = trainmark_exec.script("talk.py", f"print({chr(10).join(lines)!r})")
    expression = r"step (?P<step>\S+) took (?P<seconds>\S+)"
    found = trainmark_exec("--pattern", expression, "--batch", "4", "--", "python", script)
    assert found.counts(0) == (81, 324)
    assert found.value("throughput") == pytest.approx(8.0)
    notes = "\n".join([say(one) for one in found.case["notes"]])
    assert "58 line(s) told a step before the last one" in notes and "1 line(s) were left out: more than" in notes


def test_a_pattern_that_fits_nothing_is_told(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--pattern", r"Schritt (?P<step>\d+)", "--", "python", "-c", "print('step 1')", code=1)
    assert "no line of the output told one: check --pattern" in say(found.case["reason"])


def test_a_named_pattern_brings_the_batch_and_its_unit(trainmark_exec: Exec) -> None:
    line = (
        " [2024-05-01 10:00:00] iteration %8d/  500000 | consumed samples: %12d |"
        " elapsed time per iteration (ms): 500.0 | learning rate: 1.5E-04 |"
        " global batch size:   256 | lm loss: 7.5E+00 | loss scale: 1.0 |"
    )
    text = f"for i in range(10, 101, 10): print({line!r} % (i, i * 256), flush=True)\n"
    found = trainmark_exec("--pattern", "megatron-lm", "--", "python", trainmark_exec.script("talk.py", text))
    assert found.counts(0) == (100, 25600)
    assert found.value("throughput") == pytest.approx(512.0)
    assert found.steps(0)[-1]["loss"] == 7.5
