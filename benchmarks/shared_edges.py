"""Which ends of blocks ranks share, by simulation: with the probe's rule, and with each rank going by its own clock."""

from __future__ import annotations

from itertools import product

from figures import at_least, show

from trainmark.score.figures.steady import LEAST_INTERVALS
from trainmark.score.figures.window import LEAST_SECONDS, LEAST_STEPS
from trainmark.testing.edges import OwnClocks, Training, in_window, shared

RANKS = (2, 8, 64)
SECONDS = (0.004, 0.05, 0.09, 0.1, 0.11, 0.19, 0.2, 0.21, 0.5, 0.99, 1.0, 1.01, 3.0)
JITTERS = (0.0, 0.02, 0.3)
AHEAD = (0, 3, 1000)
SEEDS = 3
HOW = (
    f"{len(RANKS) * len(SECONDS) * len(JITTERS) * len(AHEAD)} trainings of {', '.join(map(str, RANKS))} ranks, "
    f"{SECONDS[0]:g} to {SECONDS[-1]:g} s per step, jitter of 0, 2 and 30 %, hosts that are 0, 3 and any number of "
    f"steps ahead of their devices, {SEEDS} seeds each; the fewest edges that all ranks share in any stretch of "
    f"{LEAST_STEPS} steps and {LEAST_SECONDS:g} s"
)


def main() -> None:
    least: dict[str, list[int]] = {"steps": [], "clocks": []}
    worst = {}
    for ranks, seconds, jitter, ahead, seed in product(RANKS, SECONDS, JITTERS, AHEAD, range(SEEDS)):
        steps = LEAST_STEPS + 60 + int(LEAST_SECONDS / seconds)
        training = Training(ranks=ranks, steps=steps, seconds=seconds, jitter=jitter, ahead=ahead)
        for name, rule in (("steps", {}), ("clocks", {"rule": OwnClocks})):
            edges, took = shared(training, seed, **rule)
            count = in_window(edges, took, LEAST_STEPS, LEAST_SECONDS)
            if count is None:
                raise SystemExit(f"too short to have a window: {training}")
            least[name].append(count)
            if count == min(least[name]):
                worst[name] = f"{count}: {ranks} ranks, {seconds:g} s, jitter {jitter:g}, {ahead} ahead"
    few = sum(count <= LEAST_INTERVALS for count in least["clocks"])
    show(
        "shared_edges",
        HOW,
        [at_least("edges that all ranks share", "edges", float(min(least["steps"])), LEAST_INTERVALS + 1)],
        {**worst, "own clocks, too few edges": few, "trainings": len(least["steps"])},
    )


if __name__ == "__main__":
    main()
