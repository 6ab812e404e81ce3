"""The same training in every framework, run for real in its own environment, two ranks where that is the question."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli

from .conftest import Told

pytestmark = pytest.mark.frameworks
STEPS = 6
SETTINGS = {
    "mnist": {"batch": 8, "steps": STEPS},
    "bert": {"max_steps": STEPS},
    "resnet50": {"steps": STEPS, "classes": 10},
}


@functools.cache
def trained(workload: str, framework: str, ranks: int, data: str, folder: Path) -> Told:
    """Once for all tests that ask."""
    cli = Cli(folder)
    folder.mkdir(parents=True)
    values = {**SETTINGS[workload], **({"data": data} if data else {})}
    sets = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    case = f"{workload}:{framework}:cpu:1:{ranks}:1"
    cli("run", case, "--preset", "smoke", "--seed", "7", *sets)
    return Told(cli)


@pytest.fixture
def train(whole_cache, digits, text, tmp_path_factory):
    base = tmp_path_factory.getbasetemp() / "trained"
    data = {"mnist": str(digits), "bert": str(text), "resnet50": ""}

    def call(workload: str, framework: str, ranks: int) -> Told:
        return trained(workload, framework, ranks, data[workload], base / f"{workload}-{framework}-{ranks}")

    return call


def alike(told: Told, reference: Told, ranks: int) -> None:
    for rank in range(ranks):
        ours, theirs = told.losses(rank)[:5], reference.losses(rank)[:5]
        assert len(ours) == 5
        assert ours == pytest.approx(theirs, rel=0.01)
        notes, known = told.notes(rank), reference.notes(rank)
        assert notes["parameters"] == known["parameters"]
        assert notes["first_weights_sha256"] == known["first_weights_sha256"]
    assert told.notes()["flops_per_sample"] == reference.notes()["flops_per_sample"]


def values(told: Told) -> dict[str, Any]:
    found: dict[str, Any] = told.of(0, "EVALUATE")[-1]["values"]
    return found


@pytest.mark.parametrize(
    ("workload", "framework"),
    [
        ("mnist", "mindspore"),
        ("mnist", "tensorflow"),
        ("mnist", "jax"),
        ("bert", "mindspore"),
        ("bert", "paddle"),
    ],
)
def test_two_ranks_train_as_pytorchs_do(train, workload, framework):
    told, reference = train(workload, framework, 2), train(workload, "pytorch", 2)
    alike(told, reference, 2)
    assert told.losses(0) != told.losses(1), "the ranks saw the same data"
    assert told.notes(0)["weights_sha256"] == told.notes(1)["weights_sha256"], "the ranks learned the same"
    assert len(told.of(0, "STEP_END")) == STEPS
    assert all(event["data"] > 0 for event in told.of(0, "STEP_END"))
    assert values(told) == pytest.approx(values(reference), rel=0.01)
    assert told.of(1, "FINISHED")


@pytest.mark.parametrize("framework", ["mindspore", "tensorflow", "jax"])
def test_resnet50_is_the_same_network(train, framework):
    told = train("resnet50", framework, 1)
    alike(told, train("resnet50", "pytorch", 1), 1)
    assert told.notes()["data"] == "synthetic"
