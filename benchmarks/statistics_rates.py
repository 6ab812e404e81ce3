"""How often intervals cover the truth and verdicts are wrong, by simulation, for each kind of noise: with the rule that
withheld rounds which were not steady (before), and with the rule that gives every figure with its flags (after).

(A file called `statistics.py` here would hide Python's module of that name from the other benchmarks.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import at_least, at_most, show

from trainmark.score.figures import steady
from trainmark.score.stats import change_points
from trainmark.score.stats.confidence import log_t
from trainmark.testing import noise
from trainmark.testing.noise import Noise

EXPERIMENTS = 400
ROUNDS = (3, 5, 10)
COMPARISONS = 1000
HISTORIES = 100
# The old limit on tenths of a window, whatever the noise.
OLD_LEVELS_LIMIT = 0.25
HOW = (
    f"simulated rounds of {noise.STEPS} steps, {EXPERIMENTS} cases of 3, 5 and 10 rounds for each kind of noise, "
    "scored as real ones are; the truth is the mean of ln(speed) over 20,000 rounds. Before: a case with a round that "
    "is not steady has no figure, and its interval covers nothing. Kinds that come so seldom that three rounds often "
    f"do not show them are told in the details only. {COMPARISONS} comparisons of two runs with 5 rounds, whose days "
    f"differ twice as much as rounds; {HISTORIES} histories of each kind"
)


def withheld(series: Any) -> bool:
    """The old rule."""
    logs = np.log(steady.clipped(series))
    batches = steady.batch_means(logs, steady.BATCHES)
    trends = (steady._slope(batches), steady._halves(batches), steady._change(logs)[1])
    return any(abs(trend) > steady.TOLERANCE for trend in trends) or float(np.ptp(batches)) > OLD_LEVELS_LIMIT


def coverage(model: Noise) -> dict[str, Any]:
    dice = np.random.default_rng(17)
    truth = noise.truth(model, dice)
    counts = {n: {"before_given": 0, "before_covered": 0, "after_covered": 0} for n in ROUNDS}
    flagged, half, apart = 0, [], {True: [0.0], False: [0.0]}
    for _ in range(EXPERIMENTS):
        series = [noise.seconds(model, dice) for _ in range(max(ROUNDS))]
        scored = [noise.scored(one) for one in series]
        refused = [withheld(one[steady.start(one) :]) for one in series]
        flagged += sum(any(flag.reason.code != "window-too-short" for flag in one.flags) for one in scored)
        for one, out in zip(scored, refused, strict=True):
            apart[out].append(math.log(one.value("throughput") or 1.0) - truth)
        for n, count in counts.items():
            found = noise.headline(scored[:n])
            count["after_covered"] += noise.covers(found, truth)
            if not any(refused[:n]):
                plain = log_t(found.inputs)
                count["before_given"] += 1
                count["before_covered"] += plain is not None and plain[1] <= math.exp(truth) <= plain[2]
            if n == 5 and found.ci_low and found.ci_high:
                half.append(math.sqrt(found.ci_high / found.ci_low) - 1)
    return {
        "noise": model.name,
        "seldom": model.seldom,
        **{
            f"rounds_{n}": {name: 100 * value / EXPERIMENTS for name, value in count.items()}
            for n, count in counts.items()
        },
        "flagged_rounds": 100 * flagged / EXPERIMENTS / max(ROUNDS),
        "half_width_of_5": 100 * float(np.median(half)),
        "refused_rounds_off_by": 100 * float(np.mean(apart[True])),
        "accepted_rounds_off_by": 100 * float(np.mean(apart[False])),
    }


def verdicts(others: int, ratio: float = 1.0) -> float:
    """The share of `faster` and `slower`, in %."""
    dice = np.random.default_rng(23)
    said = [noise.word(*noise.occasions(dice, others, ratio)) for _ in range(COMPARISONS)]
    return 100 * sum(one in ("faster", "slower") for one in said) / COMPARISONS


def changed(runs: int, memory: float, test: Callable[[list[float], int], bool]) -> float:
    dice = np.random.default_rng(29)
    return 100 * sum(test(noise.speeds(dice, runs, memory), seed) for seed in range(HISTORIES)) / HISTORIES


def _last(speeds: list[float], seed: int) -> bool:
    return change_points.last(speeds, change_points.changes(speeds[:-1], seed)) is not None


def _fallen(speeds: list[float], seed: int) -> bool:
    half = len(speeds) // 2
    return bool(change_points.changes([*speeds[:half], *(0.9 * speed for speed in speeds[half:])], seed))


def main() -> None:
    rows = [coverage(model) for model in noise.MODELS]
    held = [row for row in rows if not row["seldom"]]
    after = [row[f"rounds_{n}"]["after_covered"] for row in held for n in ROUNDS]
    before = [row[f"rounds_{n}"]["before_covered"] for row in held for n in ROUNDS]
    occasions = {str(others): verdicts(others) for others in (0, 3, 8, 20)}
    found = {str(others): verdicts(others, 0.8) for others in (0, 3, 8, 20)}
    histories = {
        f"{runs} runs, autocorrelation {memory}": {
            "false_changes": changed(runs, memory, lambda speeds, seed: bool(change_points.changes(speeds, seed))),
            "last_run_flagged": changed(runs, memory, _last),
            "fall_of_10_percent_found": changed(runs, memory, _fallen),
        }
        for runs in (6, 12, 30)
        for memory in (0.0, 0.3, 0.6, 0.8)
    }
    figures = [
        at_least("intervals that cover the truth, mean over kinds of noise", "%", float(np.mean(after)), 94),
        # Of one row by itself, two standard errors are 2.2 %.
        at_least("intervals that cover the truth, the worst kind of noise", "%", min(after), 91.8),
        at_least("the same before, with every case that had no figure", "%", float(np.mean(before)), 0),
        at_most("false verdicts on runs of different days, 8 others known", "%", occasions["8"], 7),
        at_most("the same with 3 others known", "%", occasions["3"], 7),
        at_least("losses of 20 % between such runs that are found, 8 others known", "%", found["8"], 80),
        at_most("false changes in 12 runs, autocorrelation 0.3", "%", _false(histories, 0.3), 7),
        at_most("false changes in 12 runs, autocorrelation 0.6", "%", _false(histories, 0.6), 15),
    ]
    details = {"coverage": rows, "false_verdicts_by_others": occasions, "found_by_others": found}
    show("statistics_rates", HOW, figures, {**details, "histories": histories})


def _false(histories: dict[str, dict[str, float]], memory: float) -> float:
    return histories[f"12 runs, autocorrelation {memory}"]["false_changes"]


if __name__ == "__main__":
    main()
