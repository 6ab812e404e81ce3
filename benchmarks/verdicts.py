"""How often a verdict is wrong on a real machine, and how often it finds a real slowdown.

Each experiment is one `trainmark run` of three cases in randomised blocks: a training, the same training under another
name, and the same with a fifth of its work done again. The first two differ in nothing, so `faster` or `slower` is
false there; the third really does more work and must be found slower. Verdicts are made as `trainmark compare` makes
them, paired by block. Rounds take about a second, which is too short for a headline and makes them noisier than those
of a real comparison: their figures are used as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from figures import at_least, at_most, show
from harness import HERE, OURS, Workspace, trainmark_run, workspace
from scipy.stats import binomtest

from trainmark.score.stats.verdict import Pair, judge

EXPERIMENTS = 20
EXTRA = 0.2
SUITE = str(HERE / "workloads" / "verdicts.yaml")
# Products this small gain nothing by a second thread, and waiting for it would be most of the noise.
SITE = str(HERE / "workloads" / "one-thread.yaml")
HOW = (
    f"{EXPERIMENTS} real runs of three cases in 8 randomised blocks: a small NumPy training on one thread, the "
    f"same again, and the same with {EXTRA:.0%} of its work done again, rounds of about a second; verdicts paired by "
    "block; intervals of shares are Clopper-Pearson's, 95 %, and wide: 20 experiments cannot show a small share"
)


def experiment(place: Workspace) -> dict[str, list[float]]:
    """Throughput of each round, by the name of the copy."""
    folder = place.fresh()
    place.spend(trainmark_run(SUITE, "--site", SITE, "--runs", "runs"), folder, expect="SUCCEEDED")
    words = ["report", "--runs", "runs", "--format", "json", "-o", "report.json"]
    place.spend([str(OURS / "trainmark"), *words], folder)
    return speeds(folder / "report.json")


def speeds(report: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for case in json.loads(report.read_text())["cases"]:
        copy = case["case"].partition("copy=")[2].partition(",")[0]
        found[copy] = case["measurements"]["throughput"]["inputs"]
    return found


def tally(experiments: list[dict[str, list[float]]], copy: str) -> Counter[str]:
    """How often each word was said of `copy` against the first."""
    return Counter(judge([Pair(one["first"], one[copy], paired=True)])[0].word for one in experiments)


def share(count: int, total: int) -> dict[str, float]:
    """In %, with its exact interval."""
    interval = binomtest(count, total).proportion_ci(0.95, method="exact")
    return {"share": 100 * count / total, "low": 100 * interval.low, "high": 100 * interval.high, "n": total}


def main() -> None:
    with workspace() as place:
        found = [experiment(place) for _ in range(EXPERIMENTS)]
    same, slow = tally(found, "second"), tally(found, "slow")
    false = share(same["faster"] + same["slower"], len(found))
    detected = share(slow["slower"], len(found))
    figures = [
        at_most("false verdicts when nothing changed", "%", false["share"], 6),
        at_least(f"slowdowns by {EXTRA:.0%} more work that are found", "%", detected["share"], 80),
    ]
    details: dict[str, Any] = {"false_percent": false, "found_percent": detected}
    show("verdicts", HOW, figures, {**details, "same": dict(same), "slow": dict(slow)})


if __name__ == "__main__":
    main()
