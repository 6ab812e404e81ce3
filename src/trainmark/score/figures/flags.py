"""What is wrong with the figures of a round and of a case: flags of single rounds, each said once with its count."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.score.figures.attempt import RunScore
from trainmark.score.records import SEVERITIES, Flag
from trainmark.score.stats.confidence import outliers


def of_round(run: RunScore, apart: bool = False) -> list[Flag]:
    """All that is wrong with one round. Of several disturbances the first is named."""
    found = list(run.flags)
    if run.disturbed:
        first, more = run.disturbed[0], len(run.disturbed) - 1
        why = reason("first-of-several", why=first, more=more) if more else first
        found.append(Flag("warning", reason("disturbed", why=why)))
    if apart:
        found.append(Flag("note", reason("round-apart")))
    return found


def of_case(runs: Sequence[RunScore], tried: int | None = None) -> list[Flag]:
    """Flags of all rounds, the worst first; and what is wrong with the case as a whole. `tried`: rounds that ended,
    well or not."""
    counts = len(runs)
    rounds = [of_round(run, odd) for run, odd in zip(runs, outlier_runs(runs), strict=True)]
    withheld = [Flag("severe", reason("round-withheld", why=run.reason)) for run in runs if run.reason is not None]
    found = _merged([*rounds, *([flag] for flag in withheld)], counts)
    if counts == 1:
        found.append(Flag("warning", reason("one-round")))
    if tried is not None and counts < tried:
        found.append(Flag("warning", reason("rounds-succeeded", count=counts, rounds=tried)))
    return sorted(found, key=lambda flag: -SEVERITIES.index(flag.severity))


def outlier_runs(runs: Sequence[RunScore]) -> list[bool]:
    """Which runs lie far from the others in throughput."""
    values = [run.value("throughput") for run in runs]
    flags = iter(outliers([value for value in values if value is not None]))
    return [next(flags) if value is not None else False for value in values]


def _merged(rounds: Sequence[Sequence[Flag]], of: int) -> list[Flag]:
    """One for each code, with the words of the round in which it weighs most."""
    kinds: dict[str, list[Flag]] = {}
    for flags in rounds:
        for flag in flags:
            kinds.setdefault(flag.reason.code, []).append(flag)
    return [msgspec.structs.replace(max(alike, key=_weight), rounds=len(alike), of=of) for alike in kinds.values()]


def _weight(flag: Flag) -> tuple[int, float]:
    return SEVERITIES.index(flag.severity), _size(flag.reason)


def _size(why: Reason) -> float:
    """By its per cent, or by how few its steps were."""
    percent, steps = why.arguments.get("percent"), why.arguments.get("steps")
    return float(percent) if percent is not None else -float(steps) if steps is not None else 0.0
