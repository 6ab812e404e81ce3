"""Student's distribution against SciPy's."""

from __future__ import annotations

import math
import random

import pytest

from trainmark.score.stats import student


def test_chances_and_limits_are_scipys() -> None:
    from scipy.special import stdtr, stdtrit

    dice = random.Random(1)
    for _ in range(2000):
        freedom, t = 10 ** dice.uniform(-0.3, 5), 10 ** dice.uniform(-4, 2.5) * dice.choice((1, -1))
        assert student.below(freedom, t) == pytest.approx(float(stdtr(freedom, t)), rel=1e-10, abs=1e-290)
        chance = 10 ** dice.uniform(-12, math.log10(0.49))
        assert student.limit(freedom, chance) == pytest.approx(-float(stdtrit(freedom, chance)), rel=1e-11)
    assert student.below(3, 0) == 0.5
