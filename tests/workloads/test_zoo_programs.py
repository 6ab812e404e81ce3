"""vit, dlrm, transformer, glm and cpm: they learn, ranks agree, and real data is read as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

VIT = {
    "image_size": 16, "patch": 8, "layers": 1, "heads": 2, "width": 16, "inner": 32, "classes": 4, "batch": 4,
    "steps": 8, "lr": 4.0, "warmup_steps": 0, "target_accuracy": 0.0,
}  # fmt: skip
DLRM = {"rows": 50, "width": 4, "bottom": "8", "top": "16", "batch": 16, "steps": 20, "lr": 0.05, "target_auc": 0.0}
TRANSFORMER = {
    "layers": 1, "heads": 2, "width": 32, "inner": 64, "context": 8, "batch": 8, "steps": 12, "lr": 0.01,
    "warmup_steps": 0, "dropout": 0.0,
}  # fmt: skip
CAUSAL = {
    "layers": 1, "heads": 2, "width": 16, "context": 16, "batch": 2, "steps": 10, "lr": 0.02, "eval_windows": 4,
    "target_loss": 0.0,
}  # fmt: skip
GLM = {**CAUSAL, "kv_heads": 1, "inner": 32}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("text")
    (folder / "song.txt").write_text("row, row, row your boat, gently down the stream. " * 40)
    return str(folder)


def _clicks(folder: Path, count: int = 400) -> Path:
    """Criteo's lines, of which the first number tells the label and many fields are empty."""
    random = np.random.default_rng(0)
    lines = []
    for _ in range(count):
        label = int(random.integers(0, 2))
        numbers = [str(9 * label), *("" if random.random() < 0.5 else "3" for _ in range(12))]
        lines.append("\t".join([str(label), *numbers, *(f"{random.integers(0, 1 << 32):08x}" for _ in range(26))]))
    file = folder / "day.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


def _learned(outcome: Any) -> None:
    losses = outcome.losses()
    assert np.mean(losses[-3:]) < np.mean(losses[:3]), losses
    assert outcome.notes()["flops_per_sample"] > 0


@pytest.mark.parametrize(
    ("script", "params", "per_step"), [("vit", VIT, 4), ("dlrm", DLRM, 16), ("transformer", TRANSFORMER, 64)]
)
def test_it_learns(runner: Any, tmp_path: Path, script: str, params: dict[str, Any], per_step: int) -> None:
    outcome = runner.inside(f"{script}/pytorch.py", tmp_path, params, data="synthetic")
    assert outcome.codes == [0], outcome.errors
    _learned(outcome)
    assert {step["n"] for step in outcome.events("STEP_END")} == {per_step}
    assert outcome.notes()["data"] == "synthetic" and not outcome.events("EVALUATE")


def test_ranks_stay_equal(runner: Any, tmp_path: Path) -> None:
    outcome = runner.run("dlrm/pytorch.py", tmp_path, {**DLRM, "steps": 3}, ranks=2, data="synthetic")
    assert outcome.codes == [0, 0], outcome.errors
    assert outcome.notes(0)["weights_sha256"] == outcome.notes(1)["weights_sha256"]


@pytest.mark.parametrize(("script", "params"), [("glm", GLM), ("cpm", CAUSAL)])
def test_models_of_transformers_learn_text(runner: Any, text: str, tmp_path: Path, script: str, params: Any) -> None:
    outcome = runner.inside(f"{script}/pytorch.py", tmp_path, params, data=text)
    assert outcome.codes == [0], outcome.errors
    _learned(outcome)
    assert outcome.events("FINISHED")[0]["values"]["loss"] > 0


def test_clicks_are_told_from_criteos_lines(runner: Any, tmp_path: Path) -> None:
    outcome = runner.inside("dlrm/pytorch.py", tmp_path / "run", {**DLRM, "steps": 40}, data=str(_clicks(tmp_path)))
    assert outcome.codes == [0], outcome.errors
    assert outcome.notes()["data"] == "lines"
    assert outcome.events("EVALUATE")[-1]["values"]["auc"] > 0.95


def test_sentences_of_two_files_are_translated(runner: Any, tmp_path: Path) -> None:
    for part, count in (("train", 64), ("val", 8)):
        lines = ["ab" * (1 + number % 3) for number in range(count)]
        (tmp_path / f"{part}.src").write_text("\n".join(lines))
        (tmp_path / f"{part}.tgt").write_text("\n".join(line.upper() for line in lines))
    outcome = runner.inside(
        "transformer/pytorch.py", tmp_path / "run", {**TRANSFORMER, "steps": 40}, data=str(tmp_path)
    )
    assert outcome.codes == [0], outcome.errors
    # A sentence of 2, 4 or 6 letters and its end; padding is no sample.
    assert all(8 * 3 <= step["n"] <= 8 * 7 for step in outcome.events("STEP_END"))
    first, *_, last = outcome.events("EVALUATE")
    assert last["values"]["loss"] < 0.7 * first["values"]["loss"] and last["values"]["accuracy"] > 0.5


def _one_side(folder: Path) -> str:
    (folder / "train.src").write_text("a\nb\n")
    (folder / "train.tgt").write_text("A\n")
    return str(folder)


def _short_line(folder: Path) -> str:
    (folder / "bad.txt").write_text("1\t2\t3\n")
    return str(folder / "bad.txt")


@pytest.mark.parametrize(
    ("script", "params", "data", "complaint"),
    [
        ("vit", {**VIT, "patch": 5}, lambda _: "synthetic", "cannot be cut into patches of 5: set patch"),
        ("dlrm", DLRM, _short_line, "bad.txt: line 1 has 3 fields, wanted are 40"),
        ("dlrm", {**DLRM, "top": "8,x"}, lambda _: "synthetic", "top is '8,x', wanted are sizes of layers"),
        ("transformer", TRANSFORMER, _one_side, "train.src has 2 lines,"),
    ],
)
def test_bad_input_is_one_line(
    runner: Any, tmp_path: Path, script: str, params: dict[str, Any], data: Any, complaint: str
) -> None:
    outcome = runner.inside(f"{script}/pytorch.py", tmp_path / "run", params, data=data(tmp_path))
    assert outcome.codes == [2]
    assert complaint in outcome.errors[0] and outcome.errors[0].count("\n") == 1
