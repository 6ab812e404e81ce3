"""The language models, run for real: what they tell, that they learn, and that every way of running agrees."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

# Text with a rhythm that a small model finds at once.
TEXT = "".join(f"{number % 7} green bottles hanging on the wall, " for number in range(400))
GPT2 = {
    "layers": 2, "heads": 2, "width": 32, "context": 16, "batch": 4, "steps": 6, "checkpoint_every": 3, "lr": 0.01,
    "eval_windows": 8, "target_loss": 0.0, "dropout": 0.1,
}  # fmt: skip
LLAMA = {
    "layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "inner": 64, "context": 16, "batch": 4, "steps": 12,
    "lr": 0.01, "eval_windows": 7, "target_loss": 0.0,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    (folder / "bottles.txt").write_text(TEXT)
    return folder


@pytest.fixture(scope="module")
def whole(runner, text, tmp_path_factory):
    """One uninterrupted run of gpt2, with dropout and two checkpoints."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, runner.inside("gpt2/pytorch.py", folder, GPT2, data=str(text))


def test_gpt2_tells_the_whole_story(whole):
    _, outcome = whole
    assert outcome.codes == [0], outcome.errors
    assert [step["n"] for step in outcome.events("STEP_END")] == [64] * 6
    losses = outcome.losses()
    assert losses[-1] < losses[0]
    notes = outcome.notes()
    assert notes["data"] == "text as characters"
    assert notes["vocabulary"] == len(set(TEXT))
    assert notes["flops_per_sample"] > 6 * 2 * 12 * 32 * 32
    assert outcome.events("EVALUATE")[0]["values"]["loss"] == outcome.events("FINISHED")[0]["values"]["loss"] > 0
    kinds = [event["k"] for event in outcome.events("TRAIN_END") + outcome.events("NOTE")]
    assert kinds[0] == "TRAIN_END"
    flops = next(note for note in outcome.events("NOTE") if note["name"] == "flops_per_sample")
    assert flops["seq"] > outcome.events("TRAIN_END")[0]["seq"], "counted while somebody waited for the first step"


def test_a_resumed_run_goes_on_as_if_nothing_had_happened(whole, runner, text, tmp_path):
    folder, outcome = whole
    (tmp_path / "checkpoints").mkdir()
    shutil.copy(folder / "checkpoints" / "step-000000003.pt", tmp_path / "checkpoints")
    resumed = runner.inside("gpt2/pytorch.py", tmp_path, GPT2, data=str(text))
    assert resumed.codes == [0], resumed.errors
    assert resumed.losses() == outcome.losses()[3:], "the same seed gives the same losses"
    assert resumed.notes()["weights_sha256"] == outcome.notes()["weights_sha256"]


def test_other_words_do_not_go_on_from_a_checkpoint(whole, runner, tmp_path):
    folder, _ = whole
    (tmp_path / "other.txt").write_text(TEXT.replace("bottles", "BOTTLES"))
    path = folder / "checkpoints" / "step-000000003.pt"
    outcome = runner.inside("gpt2/pytorch.py", tmp_path / "run", GPT2, data=str(tmp_path), checkpoint=str(path))
    assert outcome.codes == [2]
    assert outcome.errors[0].startswith(f"error: checkpoint {path} is of another model: its vocabulary has")
    assert outcome.errors[0].count("\n") == 1
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.slow
def test_weights_in_one_piece_and_in_shares_learn_alike(runner, text, tmp_path):
    """Two ranks each; the shares are also saved, and the accumulated one makes the same steps of half batches."""
    ddp = runner.run("llama/pytorch.py", tmp_path / "ddp", LLAMA, ranks=2, data=str(text))
    halves = {**LLAMA, "parallel": "fsdp", "batch": 2, "accumulate": 2, "recompute": True, "checkpoint_every": 6}
    fsdp = runner.run("llama/pytorch.py", tmp_path / "fsdp", halves, ranks=2, data=str(text))
    assert ddp.codes == fsdp.codes == [0, 0], ddp.errors + fsdp.errors
    for outcome in (ddp, fsdp):
        assert outcome.notes(0)["weights_sha256"] == outcome.notes(1)["weights_sha256"]
        assert [step["n"] for step in outcome.events("STEP_END", 1)] == [64] * 12
    assert ddp.losses(0) != ddp.losses(1), "the ranks saw the same text"
    assert fsdp.losses(0) == pytest.approx(ddp.losses(0), rel=1e-3)
    assert fsdp.losses(0)[-1] < fsdp.losses(0)[0] - 0.3
    reached = [outcome.events("EVALUATE")[0]["values"]["loss"] for outcome in (ddp, fsdp)]
    assert reached[0] == pytest.approx(reached[1], rel=1e-3)
    # The saved shares are whole weights: a single process goes on from them.
    (tmp_path / "one" / "checkpoints").mkdir(parents=True)
    shutil.copy(tmp_path / "fsdp" / "checkpoints" / "step-000000006.pt", tmp_path / "one" / "checkpoints")
    resumed = runner.inside("llama/pytorch.py", tmp_path / "one", {**LLAMA, "steps": 7}, data=str(text))
    assert resumed.codes == [0], resumed.errors
    assert resumed.losses()[0] == pytest.approx(fsdp.losses(0)[6], rel=0.2)


def test_bert_learns_to_guess_and_stops_at_its_target(runner, tmp_path):
    # As long as the windows are apart: the place tells the letter.
    (tmp_path / "song.txt").write_text("five green bottles on the wall\n" * 400)
    params = {
        "layers": 2, "heads": 2, "width": 32, "inner": 64, "max_seq_length": 32, "train_batch_size": 8, "dropout": 0.0,
        "learning_rate": 0.02, "warmup_steps": 5, "max_steps": 400, "eval_interval_samples": 160, "eval_batch_size": 16,
        "eval_iter_start_samples": 320, "num_eval_examples": 32, "target_mlm_accuracy": 0.9,
    }  # fmt: skip
    outcome = runner.inside("bert/pytorch.py", tmp_path / "run", params, data=str(tmp_path))
    assert outcome.codes == [0], outcome.errors
    evaluations = outcome.events("EVALUATE")
    assert evaluations[0]["step"] == 40
    assert evaluations[-1]["values"]["mlm_accuracy"] >= 0.9
    assert outcome.events("FINISHED")[0]["values"]["converged"] is True
    assert len(outcome.events("STEP_END")) < 400
    assert outcome.events("STEP_END")[0]["n"] == 8


def test_random_tokens_are_called_synthetic(runner, tmp_path):
    outcome = runner.inside("gpt2/pytorch.py", tmp_path, {**GPT2, "steps": 2}, data="synthetic")
    assert outcome.codes == [0], outcome.errors
    assert outcome.notes()["data"] == "synthetic"
    assert outcome.events("EVALUATE") == []


def test_a_case_with_spoilt_text_fails_with_what_is_wrong(cli, tmp_path):
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "a.txt").write_bytes(b"caf\xe9 " * 1000)
    given = f"data={tmp_path / 'spoilt'}"
    report = cli("run", "gpt2:pytorch:cpu:1:1:1", "--preset", "smoke", "--set", given, code=1).stdout
    assert "FAILED" in report
    assert "a.txt is not UTF-8 text at byte 3: set tokenizer=bytes" in report
