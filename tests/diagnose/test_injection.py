"""Faults put into real training, and found under their own headings. Real torch, real gloo, the real profiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnose.injection import INJECTED, holds, of_class, rounds_of, slept, start, waited_for_second
from trainmark.i18n.speaker import say
from trainmark.score.diagnosis import causes as diagnosis
from trainmark.score.diagnosis.causes import Observed, RoundTrace

pytestmark = pytest.mark.slow

KINDS = ("clean", "loader", "straggler")
Rounds = dict[str, list[RoundTrace]]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("injected")


@pytest.fixture(scope="module")
def rounds(out: Path) -> Rounds:
    return rounds_of([start(rank, out, KINDS) for rank in range(2)], out, KINDS)


def test_a_slow_loader_is_waiting_for_data(rounds: Rounds, out: Path) -> None:
    assert holds(of_class("data", rounds["loader"]), of_class("data", rounds["clean"]), slept(out, 0, "loader"))
    told = diagnosis.diagnose("x:pytorch:cpu:1:2:1", [Observed(one) for one in rounds["loader"]], {0: "n1", 1: "n1"})
    assert told.causes[0].kind == "data" and "loader" in say(told.causes[0].place)


def test_a_slow_rank_makes_the_others_wait(rounds: Rounds, out: Path) -> None:
    waited = [waited_for_second(rounds[kind]) for kind in ("straggler", "clean")]
    assert holds(waited[0], waited[1], slept(out, 1, "straggler"))
    told = diagnosis.diagnose("x:pytorch:cpu:1:2:1", [Observed(one) for one in rounds["straggler"]], {0: "n1", 1: "n2"})
    first = next(one for one in told.causes if one.kind == "waiting")
    assert "rank 1 on n2: its host program" in say(first.place)
    assert all(one.kind != "data" or (one.seconds.value or 0) < INJECTED / 2 for one in told.causes)
