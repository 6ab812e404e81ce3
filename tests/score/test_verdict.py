"""Verdicts by hand: what each word takes, and what is said with it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trainmark.i18n.speaker import say
from trainmark.score.stats.power import needed, stein
from trainmark.score.stats.verdict import Pair, combine, estimate, holm, judge
from trainmark.spec.rules import RepeatAuto

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.4, 99.6, 100.0]


def scaled(factor: float, values: list[float] = STEADY) -> list[float]:
    return [factor * value for value in values]


def test_figures_are_those_of_welch() -> None:
    a, b = [100.0, 103.0, 98.0, 101.0], [95.0, 97.0, 96.0, 93.0]
    (found,) = judge([Pair(a, b)])
    logs_a, logs_b = [math.log(x) for x in a], [math.log(x) for x in b]
    assert found.p_difference == pytest.approx(stats.ttest_ind(logs_b, logs_a, equal_var=False).pvalue, rel=1e-9)
    interval = stats.ttest_ind(logs_b, logs_a, equal_var=False).confidence_interval(0.95)
    assert (found.ci_low, found.ci_high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)


def test_each_word() -> None:
    assert judge([Pair(STEADY, scaled(1.06))])[0].word == "faster"
    slower = judge([Pair(STEADY, scaled(0.94))])[0]
    assert slower.word == "slower" and say(slower.reason) == "slower by 6 %"
    same = judge([Pair(STEADY, STEADY[::-1])])[0]
    assert same.word == "equivalent" and say(same.reason) == "within ±3 %"
    noisy = judge([Pair([100, 110, 90], [101, 92, 112])])[0]
    assert noisy.word == "inconclusive" and noisy.needed is not None and noisy.needed > 30


def test_a_real_difference_inside_the_margin_says_both() -> None:
    found = judge([Pair(STEADY, scaled(1.012))])[0]
    assert (found.word, say(found.reason)) == ("equivalent", "faster by 1.2 %, within ±3 %")
    assert judge([Pair(STEADY, scaled(1.012))], margin=0.01)[0].word == "faster"


def test_one_run_settles_nothing() -> None:
    found = judge([Pair([100.0], [50.0]), Pair([100.0], STEADY), Pair(STEADY, scaled(0.5))])
    assert [one.word for one in found] == ["inconclusive", "inconclusive", "slower"]
    assert "1 round(s) of A and 1 of B" in say(found[0].reason) and found[0].ci_low is None and found[0].needed is None
    assert found[1].needed is not None, "the other side's spread tells how many runs would do"
    assert found[2].p_difference == judge([Pair(STEADY, scaled(0.5))])[0].p_difference, "no claim, no part in Holm"


def test_blocks_take_out_what_both_sides_share() -> None:
    weather = [1.0, 1.3, 0.8, 1.1, 0.7, 1.2]
    a = [100 * factor for factor in weather]
    b = [95 * factor * (1 + 0.001 * (index % 2)) for index, factor in enumerate(weather)]
    assert judge([Pair(a, b)])[0].word == "inconclusive"
    found = judge([Pair(a, b, paired=True)])[0]
    assert found.word == "slower" and "paired" in say(found.method)
    with pytest.raises(ValueError, match="cannot be paired"):
        judge([Pair(a, b[1:], paired=True)])


def test_only_a_proven_loss_crosses_the_threshold() -> None:
    assert judge([Pair(STEADY, scaled(0.90))], threshold=0.05)[0].past_threshold
    close = judge([Pair(STEADY, scaled(0.949))], threshold=0.05)[0]
    assert close.word == "slower" and not close.past_threshold
    assert not judge([Pair([100.0], [10.0])])[0].past_threshold
    assert not judge([Pair(STEADY, scaled(1.5))], threshold=0.0)[0].past_threshold


def test_without_any_spread_the_answer_is_certain() -> None:
    assert [one.word for one in judge([Pair([5, 5], [5, 5]), Pair([5, 5], [6, 6])])] == ["equivalent", "faster"]


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0, 2.0], [math.nan], [math.inf]])
def test_what_is_no_speed_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        judge([Pair(bad, STEADY)])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1.0, 1.0] and holm([]) == []


speeds = st.lists(st.floats(1, 1000), min_size=2, max_size=6)


@given(speeds, speeds)
def test_both_directions_say_the_same(a: list[float], b: list[float]) -> None:
    there, back = judge([Pair(a, b)])[0], judge([Pair(b, a)])[0]
    swapped = {"faster": "slower", "slower": "faster"}
    assert back.word == swapped.get(there.word, there.word) and there.ratio == pytest.approx(1 / back.ratio)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_never_makes_a_claim_stronger(chances: list[float]) -> None:
    adjusted = holm(chances)
    assert all(after >= before for before, after in zip(chances, adjusted, strict=True))
    order = sorted(range(len(chances)), key=lambda index: chances[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)


def test_mean_of_ratios_has_the_error_of_its_runs() -> None:
    parts = [estimate(Pair(STEADY, scaled(factor))) for factor in (0.9, 1.1)]
    both = combine(parts)
    assert math.exp(both.log_ratio) == pytest.approx(math.sqrt(0.99))
    assert both.error == pytest.approx(math.hypot(*(part.error or 0 for part in parts)) / 2)
    assert both.df == pytest.approx(36)
    assert combine([parts[0], estimate(Pair([1.0], [2.0]))]).error is None


def test_needed_follows_spread_and_margin() -> None:
    calm, noisy = needed((0.01**2,) * 2, 0.03), needed((0.05**2,) * 2, 0.03)
    assert calm is not None and noisy is not None and 2 <= calm < 10 < noisy
    assert (needed((0.05**2,) * 2, 0.01) or 0) > 8 * noisy
    assert needed((10.0, 10.0), 0.001) is None and needed((0.0, 0.0), 0.03) == 2


def test_stein_by_hand() -> None:
    pilot = [100.0, 104.0, 96.0, 102.0, 98.0]
    spread = stats.tstd([math.log(value) for value in pilot])
    by_hand = math.ceil((stats.t.ppf(0.975, 4) * spread / math.log(1.02)) ** 2)
    found = stein(pilot, RepeatAuto())
    assert found.rounds == by_hand > 10 and "enough for ±2 %" in say(found.reason)
    assert stein(pilot, RepeatAuto(target=0.5)).rounds == 10
    capped = stein(pilot, RepeatAuto(target="0.5%"))
    assert capped.rounds == 30 and "would be needed" in say(capped.reason)
    few = stein(pilot[:2], RepeatAuto())
    assert few.rounds == 5 and "2 of 5 pilot rounds" in say(few.reason)
