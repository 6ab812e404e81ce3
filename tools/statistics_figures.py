"""Figures on statistics, from simulated rounds: what an interval is, what blocks and more rounds do."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable

from tools.sketch import Sketch

_TRUTH, _SPREAD = 1000.0, 0.04
# Student's t for 95 %, by the number of rounds.
_T = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 7: 2.447, 10: 2.262, 15: 2.145, 20: 2.093, 30: 2.045}


def interval(values: list[float]) -> tuple[float, float]:
    """95 % for the mean of log speeds, as reports give it."""
    logs = [math.log(value) for value in values]
    half = _T[len(logs)] * statistics.stdev(logs) / math.sqrt(len(logs))
    middle = statistics.fmean(logs)
    return math.exp(middle - half), math.exp(middle + half)


def _rounds(chance: random.Random, count: int) -> list[float]:
    return [_TRUTH * math.exp(chance.gauss(0, _SPREAD)) for _ in range(count)]


def intervals(s: Sketch) -> None:
    s.height = 260
    chance, many = random.Random(4), [interval(_rounds(random.Random(1000 + n), 5)) for n in range(2000)]
    share = 100 * sum(low <= _TRUTH <= high for low, high in many) / len(many)
    s.text(
        320, 24, s("40 experiments of 5 rounds each; the true speed is 1000", "40 次实验，每次 5 轮；真实速度为 1000")
    )
    for n in range(40):
        low, high = interval(_rounds(chance, 5))
        s.interval(_x(low), _x(high), 40 + 4.8 * n, miss=not low <= _TRUTH <= high)
    s.line(_x(_TRUTH), 34, _x(_TRUTH), 234, kind="axis")
    s.text(
        320,
        252,
        s(
            f"of 2000 such intervals {share:.1f} % hold the truth; red ones do not",
            f"2000 个这样的区间中有 {share:.1f} % 包含真值；红色的不包含",
        ),
        small=True,
    )


def _x(speed: float) -> float:
    return 320 + (speed / _TRUTH - 1) * 1900


def rounds(s: Sketch) -> None:
    s.height = 232
    s.text(
        320,
        24,
        s(
            "What more rounds buy: half the interval's width, rounds that scatter by 4 %",
            "更多的轮带来什么：区间半宽，各轮离散 4 %",
        ),
    )
    points = []
    for count in sorted(_T):
        halves = []
        for n in range(400):
            low, high = interval(_rounds(random.Random(7000 * count + n), count))
            halves.append(math.sqrt(high / low) - 1)
        points.append((count, 100 * statistics.median(halves)))
    place = [(70 + 18 * count, 190 - min(150.0, 7 * half)) for count, half in points]
    s.line(70, 190, 620, 190, kind="axis")
    s.line(70, 40, 70, 190, kind="axis")
    s.curve(place)
    for (count, half), (x, y) in zip(points, place, strict=True):
        s.dot(x, y)
        s.text(x, 206, str(count), small=True)
        if count in (3, 5, 10, 30):
            s.text(min(x + 22, 610), y - 10, f"±{half:.1f} %", small=True)
    s.text(38, 48, s("± %", "± %"), small=True)
    s.text(345, 222, s("rounds", "轮数"), small=True)


def blocks(s: Sketch) -> None:
    s.height = 230
    chance = random.Random(11)
    # The machine loses 6 % in the course of the run; B is 1 % faster than A in truth.
    drift = [1 - 0.06 * n / 19 for n in range(20)]
    noise = [math.exp(chance.gauss(0, 0.004)) for _ in range(20)]
    orders = {
        s("first all A, then all B", "先全部 A，后全部 B"): "A" * 10 + "B" * 10,
        s("in blocks, order drawn", "按区组，顺序随机"): "",
    }
    drawn = "".join(chance.choice(("AB", "BA")) for _ in range(10))
    s.text(320, 24, s("B is 1 % faster. The machine slows down by 6 % meanwhile.", "B 实际快 1 %。其间机器慢了 6 %。"))
    for side, (title, order) in enumerate(orders.items()):
        left, order = 30 + 310 * side, order or drawn
        speed = [_TRUTH * d * e * (1.01 if who == "B" else 1.0) for who, d, e in zip(order, drift, noise, strict=True)]
        for n, (who, value) in enumerate(zip(order, speed, strict=True)):
            s.dot(left + 13 * n, 190 - (value - 930) * 1.6, "dot" if who == "A" else "missdot")
        means = {who: statistics.fmean(v for w, v in zip(order, speed, strict=True) if w == who) for who in "AB"}
        seen = 100 * (means["B"] / means["A"] - 1)
        shown = f"{seen:+.1f}".replace("-", "−")
        s.text(left + 130, 52, title)
        s.text(left + 130, 218, s(f"B seems {shown} % against A", f"B 相对 A 看似 {shown} %"), small=True)
    s.text(600, 52, "● A", small=True)
    s.text(600, 68, s("red: B", "红色：B"), small=True)


FIGURES: dict[str, Callable[[Sketch], None]] = {"intervals": intervals, "rounds": rounds, "blocks": blocks}
