"""Small scripts, each with its trap, and the exact number of steps and samples that must be counted in them."""

from __future__ import annotations

import pytest

from tests.exec.conftest import Exec
from trainmark.i18n.speaker import say

# Script → steps, samples, phases of evaluation.
PLAIN = {
    "partial_batch.py": (14, 200, 0),
    "accumulation.py": (5, 160, 0),
    "overflow.py": (10, 80, 0),
    "overflow_fused.py": (10, 80, 0),
    "gan.py": (6, 48, 0),
    "in_backward.py": (10, 80, 0),
    "lbfgs.py": (5, 40, 0),
    "trainer_loop.py": (15, 240, 3),
    "evaluation.py": (20, 160, 4),
    "iterable.py": (12, 42, 0),
    "two_loaders.py": (10, 120, 0),
    "lists_and_maps.py": (9, 41, 0),
    "frozen_teacher.py": (20, 160, 0),
    "checkpointed.py": (10, 80, 0),
    "folds.py": (15, 120, 0),
    "in_turn.py": (30, 215, 0),
}


@pytest.mark.slow
def test_every_trap_is_counted_exactly(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "every.py", *PLAIN)
    counted = {script: (*found.counts(rank), found.phases(rank)) for rank, script in enumerate(PLAIN)}
    assert counted == PLAIN
    by_name = {script: rank for rank, script in enumerate(PLAIN)}
    for script in ("overflow.py", "overflow_fused.py"):
        rank = by_name[script]
        # The overflowed step is a step, it is told, and its infinite loss is no loss of the training.
        assert found.notes(rank, "skipped") == [[4]]
        assert sorted(found.losses(rank)) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
        assert all(0 < loss < 10 for loss in found.losses(rank).values())
    assert found.state == ("SUCCEEDED", "all ranks ended well")
    assert any(
        "largest" in note or "most parameters (840) of 2 optimizers" in note
        for note in [say(one) for one in found.case["notes"]]
    )
    assert found.value("samples") == sum(samples for _, samples, _ in PLAIN.values())


@pytest.mark.slow
def test_ranks_of_torchrun_are_measured_each(trainmark_exec: Exec) -> None:
    found = trainmark_exec(
        "--unit", "images", "--", "python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "ddp.py"
    )
    assert {rank: found.counts(rank) for rank in found.ranks} == {0: (5, 40), 1: (5, 39)}
    assert (found.value("steps"), found.value("samples")) == (5, 79)
    assert found.case["measurements"]["samples"]["unit"] == "images"
    assert all(found.losses(rank) and found.notes(rank, "peak_memory_bytes") for rank in (0, 1))
    assert all("data" in event for event in found.steps(0))


@pytest.mark.slow
def test_sharded_ranks_and_an_end_as_asked(trainmark_exec: Exec) -> None:
    command = ["python", "-m", "torch.distributed.run", "--nproc-per-node", "2", "fsdp.py"]
    found = trainmark_exec("--steps", "4", "--", *command)
    assert {rank: found.counts(rank) for rank in found.ranks} == {0: (4, 32), 1: (4, 32)}
    assert found.state == ("SUCCEEDED", "ended after 4 steps as asked")


@pytest.mark.slow
def test_compiled_steps_are_counted_and_nothing_is_said_of_the_hooks(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "compiled.py")
    assert found.counts(0) == (10, 80)
    assert "trainmark" not in found.output() and "Dynamo does not know" not in found.output()


@pytest.mark.slow
def test_the_users_batch_counts_and_two_counts_that_disagree_give_no_speed(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--batch", "32", "--", "python", "every.py", "no_loader.py", "partial_batch.py")
    assert found.counts(0) == (12, 384)
    assert any("most parameters (178) of 2 optimizers" in say(note) for note in found.case["notes"])
    throughput = found.case["measurements"]["throughput"]
    assert throughput["value"] is None
    assert "14 steps of batch 32 make 448 samples, its loaders gave 200 in 14 batches" in say(throughput["reason"])
