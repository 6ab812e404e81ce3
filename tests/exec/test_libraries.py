"""Real training libraries from PyPI, unmodified."""

from __future__ import annotations

import pytest

from tests.exec.conftest import Exec

pytestmark = pytest.mark.slow


def test_trainer_of_transformers(trainmark_exec: Exec) -> None:
    pytest.importorskip("transformers", exc_type=ImportError)
    found = trainmark_exec("--unit", "sequences", "--", "python", "transformers_trainer.py")
    # Two epochs of 46 samples, 6 steps each.
    assert found.counts(0) == (12, 92)
    assert [event["n"] for event in found.steps(0)] == [8, 8, 8, 8, 8, 6] * 2
    assert found.phases(0) == 2 and len(found.losses(0)) == 12


def test_accelerate_launch_with_two_ranks(trainmark_exec: Exec) -> None:
    pytest.importorskip("accelerate", exc_type=ImportError)
    launch = ["python", "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1"]
    options = ["--mixed_precision", "no", "--dynamo_backend", "no"]
    found = trainmark_exec("--", *launch, *options, "accelerate_loop.py")
    # Each rank has 11 batches (the last one filled up), which are 4 steps; twice.
    assert {rank: found.counts(rank) for rank in found.ranks} == {0: (8, 84), 1: (8, 84)}
    assert found.phases(0) == found.phases(1) == 2
