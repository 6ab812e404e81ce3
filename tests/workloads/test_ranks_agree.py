"""Ranks whose clocks disagree make the same steps and take the same decisions."""

from __future__ import annotations

import pytest

from tests.workloads.conftest import WORKLOADS

# Rank 1's clock runs three times as fast: it would end a training, and find it worth a peak, long before rank 0.
DRIVER = """
import os, runpy, sys, time
sys.path.insert(0, {folder!r})
real = time.monotonic
if os.environ["RANK"] == "1":
    time.monotonic = lambda: 3 * real()
import trainmark_torch
trainmark_torch.WORTH_A_PEAK_SECONDS = {worth}
trainmark_torch.MATMUL_SECONDS = 0.01
trainmark_torch.MATMUL_SIZE = {{"cpu": 64}}
runpy.run_path({folder!r} + "/pytorch.py", run_name="__main__")
"""
LENGTH = {"steps": 20, "seconds": 0.5, "most": 60.0, "whole": True}


@pytest.mark.parametrize(("worth", "measured"), [(1e-9, True), (1e9, False)])
def test_a_fast_clock_on_one_rank_changes_nothing(runner, digits, tmp_path, worth, measured):
    driver = tmp_path / "driver.py"
    # Between what the two clocks say: `worth` is set so that only rank 1 would be past it, or neither.
    driver.write_text(DRIVER.format(folder=str(WORKLOADS / "mnist"), worth=worth))
    params = {"batch": 8, "steps": 12, "target_accuracy": 0.0}
    outcome = runner.run(str(driver), tmp_path / "run", params, ranks=2, data=str(digits), length=LENGTH)
    assert outcome.codes == [0, 0], outcome.errors
    steps = [[step["step"] for step in outcome.events("STEP_END", rank)] for rank in (0, 1)]
    assert steps[0] == steps[1] and len(steps[0]) > 20
    notes = [outcome.notes(rank) for rank in (0, 1)]
    assert notes[0]["weights_sha256"] == notes[1]["weights_sha256"]
    assert notes[0]["trained"] == notes[1]["trained"] == {"steps": len(steps[0]), "planned": 12, "capped": False}
    assert [("matmul_flops_per_s" in one) for one in notes] == [measured, measured]
    # Looks are no part of the steps, and the recipe is evaluated when its own steps are made.
    names = [phase["name"] for phase in outcome.events("PHASE_BEGIN")]
    assert "agree" in names and names.count("evaluate") == 1
    assert outcome.events("EVALUATE")[0]["step"] == 12


def test_only_rank_1_would_find_its_training_worth_a_peak(runner, digits, tmp_path):
    """As a round failed: one rank was past the limit by its own clock, the other was not, and only one waited."""
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER.format(folder=str(WORKLOADS / "mnist"), worth="1.5 * 0.5"))
    params = {"batch": 8, "steps": 12, "target_accuracy": 0.0}
    length = {**LENGTH, "steps": 1}
    outcome = runner.run(str(driver), tmp_path / "run", params, ranks=2, data=str(digits), length=length)
    assert outcome.codes == [0, 0], outcome.errors
    told = [("matmul_flops_per_s" in outcome.notes(rank)) for rank in (0, 1)]
    assert told[0] == told[1]


def test_the_first_steps_of_a_training_by_time_are_those_of_the_recipe(runner, digits, tmp_path):
    params = {"batch": 8, "steps": 12, "target_accuracy": 0.0}
    plain = runner.inside("mnist/pytorch.py", tmp_path / "plain", params, data=str(digits))
    # It runs inside the process of the tests, which has lived for longer than a training may.
    length = {**LENGTH, "most": 86400.0}
    longer = runner.inside("mnist/pytorch.py", tmp_path / "longer", params, data=str(digits), length=length)
    assert plain.codes == longer.codes == [0]
    assert longer.losses()[:12] == plain.losses() and len(longer.losses()) > 20
    assert longer.events("EVALUATE")[0]["values"] == plain.events("EVALUATE")[0]["values"]


def test_a_program_without_room_for_its_recipe_ends_and_says_so(runner, digits, tmp_path):
    params = {"batch": 8, "steps": 100_000, "target_accuracy": 0.0, "eval_every": 100_000}
    length = {"steps": 10**6, "seconds": 1.0, "most": 2.0, "whole": True}
    outcome = runner.inside("mnist/pytorch.py", tmp_path, params, data=str(digits), length=length)
    assert outcome.codes == [0], outcome.errors
    trained = outcome.notes()["trained"]
    assert trained["capped"] is True and trained["planned"] == 100_000 > trained["steps"] >= 10
    assert outcome.events("EVALUATE") == [], "an unfinished training is no result"
    assert outcome.events("FINISHED")[0]["values"]["converged"] is None
