"""Real training libraries from PyPI, unmodified."""

from __future__ import annotations

import importlib.util

import pytest

from tests.exec.conftest import Exec

pytestmark = pytest.mark.slow


def needs(name: str) -> None:
    """Without importing it here, which takes seconds."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def test_trainer_of_transformers(trainmark_exec: Exec) -> None:
    needs("transformers")
    found = trainmark_exec("--unit", "sequences", "--", "python", "transformers_trainer.py")
    # Two epochs of 46 samples, 6 steps each.
    assert found.counts(0) == (12, 92)
    assert [event["n"] for event in found.steps(0)] == [8, 8, 8, 8, 8, 6] * 2
    assert found.phases(0) == 2 and len(found.losses(0)) == 12


def test_a_loop_under_accelerate_launch(trainmark_exec: Exec) -> None:
    needs("accelerate")
    launch = ["python", "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1", "--num_machines", "1"]
    options = ["--mixed_precision", "no", "--dynamo_backend", "no"]
    found = trainmark_exec("--", *launch, *options, "accelerate_loop.py")
    assert found.counts(0) == (14, 168)
    assert {event["n"] for event in found.steps(0)} == {12}
    assert found.phases(0) == 2
