"""Whether a search learns: regret on a table of architectures that were all trained once, paired over seeds.

Each policy searches the same table from the same start; `search_table.py` says how. Seeds count as samples only
as far as they lead along different ways, so their number is told, too.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import argparse
from statistics import mean
from typing import Any

from figures import Figure, show
from search_table import EVALUATIONS, FROM, SEEDS, Table, paired

POLICIES = ("random", "evolution", "morphism-bo")
# Around the defaults, so that a reader sees how much hangs on them.
OTHERS: tuple[dict[str, Any], ...] = ({"beta": 0.3}, {"beta": 3.0}, {"noise": 0.01}, {"noise": 1.0}, {"initial": 0})


def interval(first: list[float], second: list[float]) -> dict[str, float]:
    return dict(zip(("mean", "low", "high"), paired(first, second), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    args = parser.parse_args()
    table, seeds = Table(), range(args.seeds)
    details: dict[str, Any] = {"table": {"architectures": len(table.graphs), **table.spread}}
    regrets: dict[tuple[str, bool], list[float]] = {}
    for noisy in (False, True):
        for policy in POLICIES:
            ways = [table.search(policy, seed, noisy) for seed in seeds]
            regrets[policy, noisy] = [table.regret(way) for way in ways]
            details[f"{policy}, {'one training' if noisy else 'mean of trainings'} told"] = {
                "regret": mean(regrets[policy, noisy]),
                "different_ways": len({tuple(way) for way in ways}),
            }
    for noisy in (False, True):
        for policy in ("random", "evolution"):
            compared = paired(regrets["morphism-bo", noisy], regrets[policy, noisy])
            details[f"minus {policy}{', noisy' if noisy else ''}"] = dict(
                zip(("mean", "low", "high"), compared, strict=True)
            )
    for options in OTHERS:
        found = [table.regret(table.search("morphism-bo", seed, options=options)) for seed in seeds]
        details[f"minus random, with {options}"] = interval(found, regrets["random", False])
    ours, chance = mean(regrets["morphism-bo", False]), mean(regrets["random", False])
    high = details["minus random"]["high"]
    figure = Figure(
        f"regret of morphism-bo, evaluations {FROM} to {EVALUATIONS}", "accuracy", ours, "random", chance,
        "upper end of the 95 % interval of ours − random", high, "< 0", high < 0,
    )  # fmt: skip
    how = f"{args.seeds} seeds, paired; {len(table.graphs)} architectures; moves out of the table are offered to nobody"
    show("search_quality", how, [figure], details)


if __name__ == "__main__":
    main()
