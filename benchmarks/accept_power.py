"""What `trainmark accept` finds and whom it blames wrongly, by simulation: fleets with known truth at several levels of
noise. `python benchmarks/accept_power.py` prints the table of docs/accept.md; no host is needed."""

from __future__ import annotations

import numpy as np

from trainmark.score.accept.noise import Rule
from trainmark.testing.fleets import Fleet

RULE = Rule(looks=6)
NODES, MOST, TRIES = 4, 40, 400
NOISE = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def fleets(noise: float, most: int, slow: tuple[float, ...]) -> list[list[tuple[str, float]]]:
    """Word and findable loss of every node, for each try."""
    random = np.random.default_rng(1)
    found = (Fleet(random, NODES, noise, slow, spread=0.0).accept(RULE, most) for _ in range(TRIES))
    return [[(one.word, one.findable or 1.0) for one in verdicts.values()] for verdicts in found]


def main() -> None:
    print("| noise | blocks | false alarms | could find | 5 % found | 10 % found |\n|---|---|---|---|---|---|")
    for noise in NOISE:
        for most in (5, MOST):
            clean = fleets(noise, most, ())
            alarms = sum(any(word in ("bad", "suspect") for word, _ in one) for one in clean) / TRIES
            sees = np.median([max(value for _, value in one) for one in clean])
            shares = [sum(one[0][0] == "bad" for one in fleets(noise, most, (loss,))) / TRIES for loss in (0.05, 0.1)]
            row = [f"{100 * noise:g} %", str(most), *(f"{100 * value:.3g} %" for value in (alarms, sees, *shares))]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
