"""Bad input: one clear message, and nothing is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainmark.cli.main import main

GOOD = {"schema": 1, "name": "x", "data": "fashion-mnist", "rules": "demo", "start": "small_cnn", "policy": "random"}
MADE = {"rules": "none", "data": "synthetic", "image": {"size": 8, "channels": 1, "classes": 2}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"wrokers": 2}, "unknown key `wrokers` (did you mean `workers`?)"),
        ({"training": {"epoch": [1]}}, "training: unknown key `epoch`"),
        ({"workers": 0}, "workers: found 0"),
        ({"max_duration": "long"}, "max_duration: found 'long'"),
        ({"rules": "mine"}, "no rule set `mine`"),
        ({"policy": "rondom"}, "no policy `rondom` (did you mean `random`?)"),
        ({"policy_options": {"beta": 1}}, "policy_options.beta"),
        ({"start": "alexnet"}, "alexnet: no such start model"),
        ({"start_options": {"colour": 1}}, "start_options.colour"),
        ({"start": "mine.json", "start_options": {"width": 8}}, "has no options"),
        ({"init_models": [__file__, __file__], "start_options": {"width": 8}}, "start_options: found beside"),
        ({"hpo": {"space": {"colour": {"low": 0, "high": 1}}}}, "hpo.space.colour: cannot be searched"),
        ({"hpo": {"space": {"dropout": {"low": 0.5, "high": 0.1}}}}, "low (0.5) is above high (0.1)"),
        ({"hpo": {"space": {"dropout": {"low": 0.1}}}}, "`high` is missing"),
        ({"hpo": {"space": {"lr": {"low": 0, "high": 1, "log": True}}}}, "allowed with `log` is above 0"),
        ({"hpo": {"space": {"kernel_size": {"choices": [3, 4]}}}}, "allowed are odd numbers"),
        ({"hpo": {"space": {"batch": {"choices": []}}}}, "an empty list leaves nothing"),
        ({"hpo": {"space": {"optimizer": {"choices": ["lion"]}}}}, "found 'lion'"),
        ({"hpo": {"space": {"dropout": {}}}}, "give either `choices`, or `low` and `high`"),
        ({"weights": "nowhere.pt"}, "weights: there is no file"),
        ({"init_models": ["nowhere.json"]}, "init_models[0]: there is no file"),
        ({"data": "/nowhere/at/all"}, "data is not at /nowhere/at/all"),
        ({"slot": {"nodes": 3}}, "slot.nodes: found 3"),
        ({"image": {"size": 28, "channels": 1, "classes": 1}}, "image.classes: found 1"),
        ({"training": {"epochs": []}}, "training.epochs"),
        ({"ledger": "postgresql://me:se/cret@db/x"}, "ledger: holds a password"),
        ({"ledger": "postgresql://db/x?user=me&password=secret"}, "ledger: holds a password"),
        ({"ledger": "grpc://127.0.0.1:3"}, "ledger: found 'grpc://127.0.0.1:3'"),
        ({"max_duration": "100s"}, "under rule set `demo` valid is only `2m` or more; `rules: none`"),
        ({"data": "synthetic"}, "data: found `synthetic`; under rule set `demo` valid is only real data"),
        ({"rules": "release", "training": {"images": 100}}, "training.images: found 100"),
        ({"rules": "release"}, "data: found `fashion-mnist` with 10 classes"),
        ({"rules": "seed", "max_duration": "11h"}, "valid is only `12h` or more"),
        ({**MADE, "ledger": "nosuch://db/x"}, "ledger nosuch://db/x: cannot be used"),
        ({**MADE, "ledger": "postgresql://me@127.0.0.1:1/x"}, "ledger postgresql://me@127.0.0.1:1/x: "),
    ],
)
def test_bad_input_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], said: str
) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps({**GOOD, **change}))
    assert main(["automl", "run", str(file), "--runs", str(tmp_path / "runs")]) in (2, 3)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (
            {
                "graph": 1,
                "input": [28, 28, 1],
                "layers": [{"op": "relu", "inputs": [1]}, {"op": "relu", "inputs": [0]}],
            },
            "",
        ),
        ({"graph": 1, "input": [28, 28, 1], "layers": [{"op": "__import__", "inputs": [-1]}]}, ""),
        ({"graph": 1, "input": [28, 28, 1], "layers": [{"op": "relu", "inputs": [-1]}] * 10_000}, ""),
        ("[" * 100_000, ""),
    ],
)
def test_a_hostile_start_model_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: object, said: str
) -> None:
    model = tmp_path / "model.json"
    model.write_text(graph if isinstance(graph, str) else json.dumps(graph))
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps({**GOOD, "init_models": ["model.json"]}))
    assert main(["automl", "run", str(file), "--runs", str(tmp_path / "runs")]) == 2
    assert f"{model}: {said}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
