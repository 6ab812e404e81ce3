"""A run whose loss is not what it must be is found out."""

from __future__ import annotations

import math

import pytest

from trainmark.i18n.speaker import say
from trainmark.score.figures import gate
from trainmark.spec.band import Stretch

BAND = (Stretch(1, 50, 2.0, 2.5), Stretch(51, 100, 1.0, 1.5))


def learning(start: float = 2.25, end: float = 1.25, steps: int = 100) -> dict[int, float]:
    return {step: start if step <= steps // 2 else end for step in range(1, steps + 1)}


def test_a_run_like_the_reference_is_inside() -> None:
    assert gate.in_band(learning(), BAND) == gate.Judgement(None, gate.INSIDE)


@pytest.mark.parametrize("end", [0.9, 1.6])
def test_too_good_is_as_wrong_as_too_bad(end: float) -> None:
    found = gate.in_band(learning(end=end), BAND)
    assert found.band == gate.OUTSIDE
    assert "steps 51 to 100" in say(found.fault)
    assert "1 to 1.5" in say(found.fault)


def test_single_noisy_steps_do_not_matter_but_missing_ones_do() -> None:
    noisy = {step: loss + (0.9 if step % 2 else -0.9) for step, loss in learning().items()}
    assert not gate.in_band(noisy, BAND).fault
    short = {step: loss for step, loss in learning().items() if step <= 50}
    assert "no loss was told over steps 51 to 100" in say(gate.in_band(short, BAND).fault)


def test_a_loss_that_is_no_number_names_its_step() -> None:
    broken = learning() | {7: math.nan}
    assert "nan at step 7" in say(gate.in_band(broken, BAND).fault)
    assert "nan at step 7" in say(gate.falling(broken, "another batch").fault)


def test_without_a_band_the_loss_must_fall() -> None:
    found = gate.falling(learning(), "another batch")
    assert found.fault is None and say(found.band) == "not applicable: another batch"
    assert "does not fall" in say(gate.falling(learning(end=2.3), "another batch").fault)
    flat = dict.fromkeys(range(1, 101), 2.0)
    assert "does not fall" in say(gate.falling(flat, "another batch").fault)


def test_a_few_steps_say_nothing_about_where_the_loss_goes() -> None:
    assert not gate.falling({1: 2.0, 2: 2.1}, "another batch").fault
    assert not gate.falling({}, "another batch").fault


def test_an_attempt_that_went_on_is_judged_by_what_is_known_of_it() -> None:
    rest = {step: loss for step, loss in learning().items() if step > 60}
    assert not gate.in_band(rest, BAND, since=60).fault
    assert "steps 51 to 100" in say(gate.in_band(dict.fromkeys(range(61, 101), 9.0), BAND, since=60).fault)
    assert "steps 51 to 100" in say(gate.in_band({40: 2.2}, BAND, since=40).fault)
    assert not gate.falling(rest, "another batch", since=60).fault
    assert "does not fall" in say(gate.falling(learning(end=2.3), "another batch", since=60).fault)
