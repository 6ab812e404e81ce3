"""Scores and validity, against figures worked out by hand."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from trainmark.automl.experiment import record, schedule, score
from trainmark.automl.experiment.config import Hpo, Range, Training
from trainmark.automl.experiment.record import Epoch, Record, _once
from trainmark.automl.experiment.rules import IMAGENET, RULES, Facts, judge
from trainmark.automl.experiment.schedule import EarlyStop
from trainmark.automl.search.hpo import Tried, inherited, suggest, wants_more
from trainmark.store.rundir import RunDir


def epoch(trial: int, number: int, end: float, accuracy: float, flops: float = 1e12, run: int = 0) -> Epoch:
    return Epoch(
        trial, run, number, accuracy, 1.0, 1.0, end - 10.0, end, 100, {"trainmark": flops, "aiperf": 2 * flops}
    )


def test_score_error_and_regulated_score() -> None:
    epochs = [epoch(0, 1, 110.0, 0.5), epoch(1, 1, 130.0, 0.4), epoch(0, 2, 150.0, 0.75)]
    curve = score.curve(epochs, "trainmark", 20.0)
    # The clock starts with the first epoch's begin, at 100; a point holds what had ended by then.
    assert [point.seconds for point in curve] == [20.0, 40.0, 50.0]
    assert [point.flops for point in curve] == [1e12, 2e12, 3e12]
    # Divided by the last end before the point, not by the point: an epoch under way is not held against the machine.
    assert [point.score for point in curve] == pytest.approx([1e11, 2e12 / 30, 3e12 / 50])
    assert [point.error for point in curve] == pytest.approx([0.5, 0.5, 0.25])
    assert curve[-1].regulated == pytest.approx(3e12 / 50 * -math.log(0.25))
    assert score.curve(epochs, "aiperf", 20.0)[-1].flops == 6e12


def test_factors_of_the_regulated_score() -> None:
    for accuracy, factor in ((0.65, 1.050), (0.70, 1.204), (0.75, 1.386), (0.76, 1.427)):
        assert score.regulated(1.0, 1 - accuracy) == pytest.approx(factor, abs=5e-4)


def test_an_epoch_counts_once_however_often_it_was_told() -> None:
    told = [epoch(t, e, 10.0 * e + t, 0.1) for t in range(3) for e in range(1, 5)]
    twice = told + random.Random(1).sample(told, 7)
    found = _once(Record(epochs=twice))
    assert len(found.epochs) == 12 and found.repeated == 7
    assert sum(one.flops["trainmark"] for one in found.epochs) == 12e12


def facts(**changes: object) -> Facts:
    given = {"seconds": 13 * 3600, "accuracy": 0.66, "synthetic": False, "dtypes": ("fp16",), "batches": ((448, 31.7),)}
    given["images"] = (IMAGENET,)
    return Facts(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "changes", "missed"),
    [
        ("seed", {}, []),
        ("seed", {"accuracy": 0.649}, ["accuracy"]),
        ("seed", {"seconds": 11.9 * 3600}, ["time"]),
        ("seed", {"batches": ((256, 32.0),)}, ["batch"]),
        ("seed", {"batches": ((448, None),)}, []),
        ("seed", {"dtypes": ("fp8",)}, ["precision"]),
        ("seed", {"synthetic": True}, ["data"]),
        ("seed", {"images": ((60_000, 10_000, 10),)}, ["data-set"]),
        ("release", {"accuracy": 0.8, "images": (IMAGENET, (1000, 50_000, 1000))}, ["data-set"]),
        # Records of older versions do not say.
        ("seed", {"images": ((0, 0, 1000),)}, []),
        ("none", {}, ["rules"]),
        ("release", {"accuracy": 0.69, "seconds": 3599.0}, ["accuracy", "time"]),
        ("release", {"accuracy": 0.70, "seconds": 3600.0, "batches": ((1, 32.0),)}, []),
        ("demo", {"accuracy": 0.81, "seconds": 121.0}, []),
    ],
)
def test_validity(rules: str, changes: dict[str, object], missed: list[str]) -> None:
    assert [one.rule for one in judge(RULES[rules], facts(**changes)) if one.met is False] == missed


def test_budgets_rates_and_early_stops() -> None:
    budgets = [15, 30, 45, 60]
    assert [schedule.budget(budgets, number) for number in range(6)] == [15, 30, 45, 60, 60, 60]
    assert schedule.learning_rate(0.2, 0.0, 0, 60) == 0.2
    assert schedule.learning_rate(0.2, 0.0, 30, 60) == pytest.approx(0.1)
    assert schedule.learning_rate(0.2, 1e-5, 60, 60) == pytest.approx(1e-5)
    rule = EarlyStop("accuracy", 3)
    assert not schedule.is_stuck(rule, [0.1, 0.3, 0.2, 0.25], [], 0)
    assert schedule.is_stuck(rule, [0.1, 0.3, 0.2, 0.25, 0.3], [], 0)
    falling = [1.0 - 0.01 * n for n in range(50)]
    flat = [1.0, *([0.9995] * 6)]
    assert not schedule.is_stuck(EarlyStop("aiperf"), [], falling, 0)
    assert schedule.is_stuck(EarlyStop("aiperf"), [], flat, 0)
    assert not schedule.is_stuck(EarlyStop("aiperf"), [], flat, 1)


def test_hyper_parameters_are_searched_from_the_configured_round_on() -> None:
    hpo, first = Hpo(from_round=3, searches=2), Tried(inherited(Training(), {"lr": 0.3}), 0.5)
    assert first.values["lr"] == 0.3 and first.values["batch"] == 448
    assert wants_more(hpo, 0, []) and not wants_more(hpo, 2, [first]) and wants_more(hpo, 3, [first])
    second = Tried(suggest(hpo, [first], 7), 0.4)
    assert 0 <= second.values["dropout"] <= 0.2 and second.values["kernel_size"] in (3, 5, 7)
    assert second.values["lr"] == 0.3
    assert wants_more(hpo, 3, [first, second]) and not wants_more(hpo, 3, [first, second, second])
    # Asked again after a crash, with the same trainings on record, it says the same.
    assert suggest(hpo, [first], 7) == second.values


def test_a_search_learns_from_the_trials_before_it() -> None:
    hpo = Hpo(from_round=0, searches=1, space={"dropout": Range(low=0.0, high=0.2)})
    own = [Tried({"dropout": 0.1}, 0.5)]

    def suggested(history: list[list[Tried]]) -> float:
        return sum(suggest(hpo, own, seed, history)["dropout"] for seed in range(40)) / 40

    # In each of these trials the second training did better, at another level of accuracy each.
    levels = [number / 25 for number in range(24)]
    low = [[Tried({"dropout": 0.18}, level), Tried({"dropout": 0.02}, level + 0.01)] for level in levels]
    high = [[Tried({"dropout": 0.02}, level), Tried({"dropout": 0.18}, level + 0.01)] for level in levels]
    assert suggested(low) < 0.05 < suggested([]) < 0.15 < suggested(high)
    # The second search already depends on the first.
    assert suggested(low[:1]) < 0.05 and suggested(high[:1]) > 0.15


def test_searches_that_gain_nothing_end() -> None:
    hpo = Hpo(from_round=0, searches=30, patience=3)
    tried = [Tried({}, 0.5), Tried({}, 0.4), Tried({}, 0.6), Tried({}, 0.5), Tried({}, 0.6)]
    assert wants_more(hpo, 0, tried)
    assert not wants_more(hpo, 0, [*tried, Tried({}, None)])


def test_a_record_is_read_on_from_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line waits for its end, and lines longer than a piece are lines all the same."""
    monkeypatch.setattr(record, "_PIECE", 64)
    events = tmp_path / "case" / "round1" / "attempt1" / "n1_noderank0" / "events.jsonl"
    events.parent.mkdir(parents=True)
    end = {"number": 3, "wall": 1.0, "value": 0.5}
    line = json.dumps({"k": "NOTE", "name": "automl_end", "value": end}).encode()
    step = b'{"k":"STEP","r":0,"step":1}\n'
    reader = record.Reader(RunDir(tmp_path))
    events.write_bytes(step * 5 + line + b"\n" + step + line[:30])
    assert [one.number for one in reader.read().ends] == [3]
    with events.open("ab") as more:
        more.write(line[30:] + b"\n" + b'{"name":"automl_end"\n')
    found = reader.read()
    assert [one.number for one in found.ends] == [3, 3] and found.unreadable == 1
    assert record.read(RunDir(tmp_path)) == found
