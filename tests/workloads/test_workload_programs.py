"""The reference programs, run for real: what they tell, what they refuse, and that ranks agree."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

SMALL = {"batch": 16, "steps": 6, "checkpoint_every": 3, "target_accuracy": 0.0}


@pytest.fixture(scope="module")
def whole(runner, digits, tmp_path_factory):
    """One uninterrupted run of mnist with two checkpoints."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, runner.inside("mnist/pytorch.py", folder, SMALL, data=str(digits))


def test_mnist_tells_the_whole_story(whole):
    _, outcome = whole
    assert outcome.codes == [0], outcome.errors
    assert [step["step"] for step in outcome.events("STEP_END")] == [1, 2, 3, 4, 5, 6]
    assert all(step["n"] == 16 and step["data"] > 0 for step in outcome.events("STEP_END"))
    assert len(outcome.losses()) == 6
    assert [phase["name"] for phase in outcome.events("PHASE_BEGIN")] == ["checkpoint", "checkpoint", "evaluate"]
    evaluation = outcome.events("EVALUATE")[0]
    assert evaluation["step"] == 6
    assert 0 <= evaluation["values"]["accuracy"] <= 1
    notes = outcome.notes()
    assert notes["parameters"] == 206922
    assert len(notes["weights_sha256"]) == 64
    assert notes["flops_per_sample"] == 7082496
    first = notes["first_step"]
    assert first["loss"] == pytest.approx(outcome.losses()[0]) and first["gradient_norm"] > 0
    finished = outcome.events("FINISHED")[0]["values"]
    assert finished["converged"] is None
    assert finished["steps"] == 6


def test_a_resumed_run_ends_with_the_same_weights(whole, runner, digits, tmp_path):
    folder, outcome = whole
    (tmp_path / "checkpoints").mkdir()
    shutil.copy(folder / "checkpoints" / "step-000000003.pt", tmp_path / "checkpoints")
    resumed = runner.inside("mnist/pytorch.py", tmp_path, SMALL, data=str(digits))
    assert resumed.codes == [0], resumed.errors
    assert resumed.notes()["resumed_from_step"] == 3
    assert [step["step"] for step in resumed.events("STEP_END")] == [4, 5, 6]
    assert resumed.notes()["weights_sha256"] == outcome.notes()["weights_sha256"]


def test_two_ranks_learn_the_same_and_stop_at_the_target(runner, digits, tmp_path):
    params = {"batch": 8, "accumulate": 2, "epochs": 20, "target_accuracy": 0.95, "eval_every": 10}
    outcome = runner.run("mnist/pytorch.py", tmp_path, params, ranks=2, data=str(digits))
    assert outcome.codes == [0, 0], outcome.errors
    steps = [[step["step"] for step in outcome.events("STEP_END", rank)] for rank in (0, 1)]
    assert steps[0] == steps[1]
    assert len(steps[0]) < 400
    assert outcome.notes(0)["weights_sha256"] == outcome.notes(1)["weights_sha256"]
    accuracy = [[e["values"]["accuracy"] for e in outcome.events("EVALUATE", rank)] for rank in (0, 1)]
    assert accuracy[0] == accuracy[1]
    assert accuracy[0][-1] >= 0.95
    assert outcome.events("FINISHED")[0]["values"]["converged"] is True
    assert outcome.losses(0) != outcome.losses(1), "the ranks saw the same images"


def test_a_broken_file_is_one_line_and_exit_code_2(runner, own_digits, tmp_path):
    path = own_digits / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-300])
    outcome = runner.run("mnist/pytorch.py", tmp_path / "run", SMALL, data=str(own_digits))
    assert outcome.codes == [2]
    assert outcome.errors[0].startswith(f"error: {path} cannot be read")
    assert outcome.errors[0].count("\n") == 1


def test_mnist_without_data_says_what_it_needs(runner, tmp_path):
    outcome = runner.inside("mnist/pytorch.py", tmp_path, SMALL, data=None)
    assert outcome.codes == [2]
    assert outcome.errors == ["error: mnist needs data: a folder with the four IDX files of MNIST or its kin\n"]


def test_resnet50_runs_on_synthetic_images_and_says_so(runner, tmp_path):
    params = {"batch": 2, "steps": 2, "image_size": 32, "classes": 10, "warmup_epochs": 0, "target_accuracy": 0.0}
    outcome = runner.inside("resnet50/pytorch.py", tmp_path, params, data=None)
    assert outcome.codes == [0], outcome.errors
    assert outcome.notes()["data"] == "synthetic"
    assert len(outcome.losses()) == 2
    assert outcome.events("EVALUATE") == []
    assert outcome.events("FINISHED")[0]["values"]["converged"] is None


@pytest.mark.parametrize("params", [{}, {"seconds": 0.2}])
def test_noop_starts_and_ends(runner, tmp_path, params):
    start = time.monotonic()
    outcome = runner.run("noop/noop.py", tmp_path, params)
    assert outcome.codes == [0], outcome.errors
    assert time.monotonic() - start >= params.get("seconds", 0)
    assert outcome.events("STEP_END") == []
    assert len(outcome.events("FINISHED")) == 1


def test_noop_is_a_load_of_known_speed(runner, tmp_path):
    outcome = runner.run("noop/noop.py", tmp_path, {"seconds": 1.0, "steps": 20, "batch": 7})
    steps = outcome.events("STEP_END")
    assert [step["n"] for step in steps] == [7] * 20
    times = [step["t"] for step in steps]
    assert (times[-1] - outcome.events("TRAIN_START")[0]["t"]) / 1e9 == pytest.approx(1.0, abs=0.1)
    between = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    assert between[len(between) // 2] / 1e9 == pytest.approx(0.05, abs=0.02)


def test_a_program_copied_out_beside_the_probe_runs_by_itself(tmp_path):
    package = Path(__file__).parents[2] / "src" / "trainmark"
    for file in ("workloads/noop/noop.py", "probe/trainmark_probe.py"):
        shutil.copy(package / file, tmp_path)
    done = subprocess.run([sys.executable, "-B", "noop.py"], env={}, cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["noop.py", "trainmark_probe.py"]


def test_collectives_tell_what_each_size_got(runner, tmp_path):
    params = {"min_bytes": 1024, "max_bytes": 65536, "factor": 8, "batches": 2, "seconds": 0.01}
    outcome = runner.run("collectives/pytorch.py", tmp_path, params, ranks=2)
    assert outcome.codes == [0, 0], outcome.errors
    told = [note["value"] for note in outcome.events("NOTE") if note["name"] == "collective"]
    names = ("all_reduce", "all_gather", "reduce_scatter", "send_recv")
    assert [(one["operation"], one["bytes"]) for one in told] == [
        (name, size) for name in names for size in (1024, 8192, 65536)
    ]
    for one in told:
        assert one["bandwidth"] == pytest.approx(one["bytes"] / one["seconds"]) and one["world"] == 2
    steps = [outcome.events("STEP_END", rank) for rank in (0, 1)]
    assert [step["n"] for step in steps[0]] == [step["n"] for step in steps[1]], "ranks took the same decisions"
    alone = runner.run("collectives/pytorch.py", tmp_path / "alone", params)
    assert alone.codes == [2] and "2 ranks or more" in alone.errors[0]
