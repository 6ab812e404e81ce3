"""LAMB in PaddlePaddle, as lamb.py has it for PyTorch; or AdamW, when the parameters say so."""

from __future__ import annotations

from typing import Any

import paddle

LAMB_EPSILON = 1e-6


class Lamb:
    """Gradients have the norm `clip` at most, weights of one dimension do not decay."""

    def __init__(self, weights: dict[str, Any], params: dict[str, Any]) -> None:
        self.weights, self.steps = weights, 0
        self.betas = params["opt_lamb_beta_1"], params["opt_lamb_beta_2"]
        self.decay, self.clip, self.lamb = params["weight_decay_rate"], params["clip"], params["optimizer"] == "lamb"
        self.epsilon = LAMB_EPSILON if self.lamb else 1e-8
        self.means = {name: paddle.zeros_like(weight) for name, weight in weights.items()}
        self.squares = {name: paddle.zeros_like(weight) for name, weight in weights.items()}

    def tensors(self) -> dict[str, dict[str, Any]]:
        """The state, by kind and name of the weight."""
        return {"means": self.means, "squares": self.squares}

    @paddle.no_grad()
    def step(self, lr: float) -> None:
        self.steps += 1
        (beta1, beta2), share = self.betas, 1.0
        if self.clip:
            norm = paddle.sqrt(sum((weight.grad.square().sum() for weight in self.weights.values()), paddle.zeros([])))
            share = paddle.clip(self.clip / (norm + 1e-6), max=1.0)
        for name, weight in self.weights.items():
            gradient, mean, square = weight.grad * share, self.means[name], self.squares[name]
            paddle.assign(mean * beta1 + gradient * (1 - beta1), mean)
            paddle.assign(square * beta2 + gradient.square() * (1 - beta2), square)
            # The means began at zero and are that much too small.
            wide = paddle.sqrt(square / (1 - beta2**self.steps)) + self.epsilon
            change = mean / (1 - beta1**self.steps) / wide
            if weight.ndim > 1:
                change = change + self.decay * weight
                if self.lamb:
                    size, wanted = change.norm(), weight.norm()
                    known = paddle.logical_and(size > 0, wanted > 0)
                    change = change * paddle.where(known, wanted / size, paddle.ones_like(size))
            paddle.assign(weight - lr * change, weight)
