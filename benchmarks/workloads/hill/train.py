"""Gradient descent on a network of two layers, with nothing but NumPy: it starts in a moment."""

from __future__ import annotations

import numpy as np
import trainmark_probe as probe

INPUTS, HIDDEN = 256, 256
RATE = 0.01
# A step is made of this many equal parts, so that a share of them can be done again.
PARTS = 20


def descend(layers: list[np.ndarray], x: np.ndarray, y: np.ndarray) -> float:
    """One update; returns the loss before it."""
    hidden = np.tanh(x @ layers[0])
    error = hidden @ layers[1] - y
    slope = (error @ layers[1].T) * (1 - hidden**2)
    layers[1] -= RATE * hidden.T @ error / len(x)
    layers[0] -= RATE * x.T @ slope / len(x)
    return float((error**2).mean())


def main() -> None:
    config = probe.config(copy="", extra=0.0, steps=40, batch=48)
    params = config["params"]
    draw = np.random.default_rng(config["seed"])
    layers = [draw.normal(0, 0.05, (INPUTS, HIDDEN)), draw.normal(0, 0.05, (HIDDEN, 1))]
    x = draw.normal(0, 1, (params["batch"], INPUTS))
    y = np.sin(x.sum(axis=1, keepdims=True))
    probe.init(unit="samples")
    probe.init_end()
    probe.train_start()
    for _ in range(params["steps"]):
        for _ in range(round(PARTS * (1 + params["extra"]))):
            loss = descend(layers, x, y)
        probe.step(params["batch"], loss=loss)
    probe.train_end()
    probe.finish()


if __name__ == "__main__":
    main()
