"""Speed-ups, predictions, changes of level and sequential answers, held against what is known to be true."""

from __future__ import annotations

import math
import random

import pytest

from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.score.stats import sequential
from trainmark.score.stats.change_points import changes
from trainmark.score.studies.predict import calibrate, predict, published
from trainmark.score.studies.published import COLUMNS, TABLES
from trainmark.score.studies.scaling import ScalePoint, oddities, ratio_of_medians, scaled


def test_a_speedup_needs_a_baseline_and_its_interval_two_runs() -> None:
    base, four = ScalePoint(1, 1, [100.0, 101.0, 99.0]), ScalePoint(1, 4, [380.0, 384.0, 376.0])
    found = scaled(four, base)
    assert found.speedup == 3.8 and found.efficiency == pytest.approx(0.95)
    assert found.speedup_low is not None and found.speedup_low < 3.8 < (found.speedup_high or 0)
    assert scaled(base, base).speedup == 1.0 and scaled(base, base).speedup_low is None
    for missing in (None, ScalePoint(1, 1, [])):
        assert scaled(four, missing).speedup is None and scaled(four, missing).median == 380.0
    assert scaled(four, ScalePoint(1, 1, [100.0])).speedup_low is None


SPREADS = (0.01, 0.03)


@pytest.mark.parametrize("runs", [(3, 3), (5, 5), (6, 6), (3, 8)])
def test_intervals_of_ratios_of_medians_hold(runs: tuple[int, int]) -> None:
    dice = random.Random(7)
    held = 0
    for _ in range(1000):
        a, b = (
            [100 * dice.lognormvariate(0, spread) for _ in range(n)] for n, spread in zip(runs, SPREADS, strict=True)
        )
        _, low, high = ratio_of_medians(a, b)
        held += (low or 2) <= 1 <= (high or 0)
    assert 0.93 <= held / 1000 <= 0.995


def test_odd_cells_are_flagged() -> None:
    base = ScalePoint(1, 1, [100.0, 100.1, 99.9])
    points = [base, ScalePoint(1, 4, [450.0, 450.1, 449.9]), ScalePoint(2, 4, [400.0, 400.1, 399.9])]
    told = oddities([(point, scaled(point, base)) for point in points])
    assert told[0] is None and "more than linear" in say(told[1]) and say(told[2]) == "slower than 1x4"


def test_held_out_tables_lie_in_their_intervals() -> None:
    rows = published()
    inside = 0
    for row in rows:
        others = calibrate([other for other in rows if other.table != row.table])
        cells = TABLES[row.table][row.row]
        points = [ScalePoint(*at, [speed]) for at, speed in zip(COLUMNS, cells, strict=True) if speed and at[0] < 4]
        found = predict(points, 4, found=others)
        inside += found.low <= (cells[-1] or math.nan) <= found.high
    assert len(rows) > 80 and inside >= 0.8 * len(rows)


def test_predictions_know_their_limits() -> None:
    single = [ScalePoint(1, 1, [100.0]), ScalePoint(1, 2, [190.0])]
    with pytest.raises(UserError, match=r"not enough points.*measure 2x2"):
        predict(single, 8)
    with pytest.raises(UserError, match="not enough points"):
        predict([ScalePoint(1, 1, [100.0]), ScalePoint(2, 8, [900.0])], 8)
    several = [*single, ScalePoint(2, 2, [370.0, 372.0])]
    near, far = predict(several, 4), predict(several, 128)
    assert near.low < near.value < near.high < 4 * 190.0 * 1.1
    assert far.high / far.low > near.high / near.low, "further away less is known"
    assert far.efficiency < near.efficiency <= 1
    assert far.high < 128 / 2 * 371.0 * 1.1, "more than linear does not go on"
    with pytest.raises(UserError, match="was measured"):
        predict(several, 2)
    bordered = predict(single, 2, all_reduce=0.1)
    assert bordered.low == pytest.approx(380 / 1.1) and bordered.high == pytest.approx(380)
    assert any("not held against" in say(note) for note in bordered.notes)


@pytest.mark.parametrize("share", [0.002, 0.0096, 0.03])
def test_far_outside_what_was_measured_is_said_and_covers_a_serial_share(share: float) -> None:
    """Losses that do not fade: 0.0096 makes 0.45 of ideal at 128 nodes."""
    points = [ScalePoint(nodes, 8, [100 * nodes / (1 + share * (nodes - 1))]) for nodes in (1, 2, 4)]
    near, far = (predict(points, nodes) for nodes in (8, 128))
    assert near.flags == [] and [flag.severity for flag in far.flags] == ["severe"]
    assert "32 times the largest that was measured (4x8)" in say(far.flags[0].reason)
    truth = 100 * 128 / (1 + share * 127)
    assert far.low <= truth <= far.high


def test_changes_of_level_are_found_and_noise_is_not() -> None:
    dice = random.Random(3)
    noise = [100 * dice.lognormvariate(0, 0.01) for _ in range(30)]
    (found,) = changes([*noise[:14], *(0.9 * speed for speed in noise[14:])])
    assert found.index == 14 and found.ratio == pytest.approx(0.9, rel=0.02) and found.p < 0.01
    quiet = [changes([100 * dice.lognormvariate(0, 0.02) for _ in range(12)], seed) for seed in range(60)]
    assert sum(map(bool, quiet)) <= 8, "about 5 % of series without a change"
    assert changes([100.0] * 10) == [] and changes([100.0, 50.0]) == []


def test_sequential_answers_are_seldom_wrong_and_come_soon() -> None:
    dice = random.Random(5)
    wrong, taken = 0, []
    for _ in range(300):
        good, bad = ([level * dice.lognormvariate(0, 0.02) for _ in range(4)] for level in (100.0, 94.0))
        seen: list[float] = []
        side = None
        while side is None and len(seen) < sequential.MOST_ROUNDS:
            seen.append(94.0 * dice.lognormvariate(0, 0.02))
            side = sequential.belongs(good, bad, seen, 0.02)
        wrong += side == "good"
        taken.append(len(seen))
    assert wrong <= 0.05 * 300 and sorted(taken)[150] <= 4
