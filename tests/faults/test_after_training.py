"""What fails when training is over takes nothing from what was measured, and is not hidden either."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.i18n.speaker import say

# Its clock is made up: 120 steps in a moment, which claim to have taken 24 s.
PROGRAM = """
import os, sys, time
import trainmark_probe as probe

mode, rank = probe.config()["params"]["mode"], int(os.environ["RANK"])
now = probe.monotonic_ns()
probe.monotonic_ns = lambda: now
probe.init(unit="things", world=2)
probe.init_end()
probe.train_start()
for step in range(120):
    now += 200_000_000
    probe.step(8, loss=float("nan") if mode == "wrong" else 1.0)
if mode == "early" and rank == 1:
    sys.exit("it broke here")
probe.train_end()
if rank == 1:
    sys.exit("it broke here")
probe.finish()
"""


def test_a_round_that_fails_after_training_keeps_its_measurement(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(PROGRAM)
    (case,) = cli.json("run", str(make_suite("  - thing:none:cpu:1:2:1@mode=late")), code=1)["cases"]
    assert case["state"] == "FAILED", "what happened is not hidden"
    assert say(case["reason"]).startswith("failed after training, whose measurement is kept: rank 1 ")
    assert case["counted"] == 1 and case["measurements"]["throughput"]["inputs"] == pytest.approx([80.0])
    assert any("failed after training" in say(note) for note in case["notes"])


def test_a_round_that_fails_in_training_has_none(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(PROGRAM)
    (case,) = cli.json("run", str(make_suite("  - thing:none:cpu:1:2:1@mode=early")), code=1)["cases"]
    assert (case["state"], case["counted"], case["measurements"]) == ("FAILED", 0, {})
    assert "after training" not in say(case["reason"])


def test_a_wrong_result_stays_wrong(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(PROGRAM)
    (case,) = cli.json("run", str(make_suite("  - thing:none:cpu:1:2:1@mode=wrong")), code=1)["cases"]
    assert (case["state"], case["measurements"]) == ("FAILED", {})
