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
    "time_first.py": (8, 200, 0),
    "packed.py": (7, 50, 0),
    "embedding_bag.py": (13, 100, 0),
    "graphs.py": (5, 80, 0),
    "detection.py": (16, 62, 0),
    "early_break.py": (40, 320, 0),
    "resumed.py": (24, 186, 0),
    "look.py": (24, 192, 4),
    "endless.py": (12, 144, 0),
    "wgan.py": (80, 320, 0),
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
    notes = [say(one) for one in found.case["notes"]]
    assert any("RMSprop (840): 16, RMSprop (9): 80" in note for note in notes), notes
    assert any(
        "loader drew for its batches (200); the first dimension of their tensors would make 110" in one for one in notes
    )
    # The loss of a step is not divided by the number of batches it is accumulated over.
    assert all(0.3 < loss < 1.5 for loss in found.losses(by_name["accumulation.py"]).values())
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
    assert any("SGD (178): 12, SGD (3): 12" in say(note) for note in found.case["notes"])
    throughput = found.case["measurements"]["throughput"]
    assert throughput["value"] is None
    assert "14 steps of batch 32 make 448 samples, its loaders gave 200 in 14 batches" in say(throughput["reason"])


@pytest.mark.slow
def test_processes_that_nobody_numbered_are_all_counted(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "hogwild.py")
    assert {rank: found.counts(rank) for rank in found.ranks} == {0: (50, 400), 1: (50, 400)}
    assert (found.value("steps"), found.value("samples")) == (50, 800)
    notes = [say(one) for one in found.case["notes"]]
    assert any("2 processes trained beside each other" in note for note in notes)
    assert not any("left" in note for note in notes), notes


@pytest.mark.slow
def test_a_process_that_takes_part_uncounted_withholds_the_speed(
    trainmark_exec: Exec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    found = trainmark_exec("--", "python", "hogwild.py")
    assert found.value("throughput") is None
    assert "1 other process(es) trained as rank 0" in say(found.case["measurements"]["throughput"]["reason"])


@pytest.mark.slow
def test_evaluation_without_a_loader_is_out_of_the_speed(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--batch", "192", "--unit", "tokens", "--", "python", "estimate_loss.py")
    assert found.counts(0) == (40, 7680)
    # The one before the first step is none of training.
    assert found.phases(0) == 4
    init, end_to_end = found.value("init_time"), found.value("end_to_end_time")
    # Importing torch takes longer than this.
    assert init is not None and end_to_end is not None and 0.3 < init < end_to_end


@pytest.mark.slow
def test_tokens_are_counted_as_tokens(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--unit", "tokens", "--", "python", "tokens.py")
    assert found.counts(0) == (5, 120)
    assert found.case["measurements"]["samples"]["unit"] == "tokens"


@pytest.mark.slow
def test_a_size_that_cannot_be_told_withholds_the_speed(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "dropped.py")
    assert found.value("throughput") is None
    assert "whose size could not be told" in say(found.case["measurements"]["throughput"]["reason"])
