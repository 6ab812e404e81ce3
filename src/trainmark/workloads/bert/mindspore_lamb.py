"""LAMB in MindSpore, as lamb.py has it for PyTorch; or AdamW, when the parameters say so."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import ParameterTuple, Tensor, nn, ops

LAMB_EPSILON = 1e-6


class Lamb(nn.Optimizer):
    """Gradients have the norm `clip` at most, weights of one dimension do not decay."""

    def __init__(self, weights: list[Any], rates: Any, params: dict[str, Any]) -> None:
        super().__init__(rates, weights)
        self.beta1, self.beta2 = params["opt_lamb_beta_1"], params["opt_lamb_beta_2"]
        self.decay, self.clip, self.lamb = params["weight_decay_rate"], params["clip"], params["optimizer"] == "lamb"
        self.epsilon = LAMB_EPSILON if self.lamb else 1e-8
        self.decayed = [weight.ndim > 1 for weight in weights]
        self.means = ParameterTuple([weight.clone(init="zeros") for weight in weights])
        self.squares = ParameterTuple([weight.clone(init="zeros") for weight in weights])
        for kind, held in (("mean", self.means), ("square", self.squares)):
            for weight, one in zip(weights, held, strict=True):
                one.name = f"{kind}.{weight.name}"
        self.steps = ms.Parameter(Tensor(0.0, ms.float32), name="lamb_steps")

    def construct(self, gradients):  # type: ignore[no-untyped-def]
        lr = self.get_lr()
        self.assignadd(self.global_step, self.global_step_increase_tensor)
        steps = self.steps + 1.0
        ops.assign(self.steps, steps)
        share = 1.0
        if self.clip > 0:
            squares = 0.0
            for gradient in gradients:
                squares += (gradient * gradient).sum()
            share = ops.minimum(self.clip / (ops.sqrt(squares) + 1e-6), Tensor(1.0, ms.float32))
        too_small1, too_small2 = 1 - ops.pow(self.beta1, steps), 1 - ops.pow(self.beta2, steps)
        for number, weight in enumerate(self.parameters):
            gradient = gradients[number] * share
            mean = self.means[number] * self.beta1 + gradient * (1 - self.beta1)
            square = self.squares[number] * self.beta2 + gradient * gradient * (1 - self.beta2)
            ops.assign(self.means[number], mean)
            ops.assign(self.squares[number], square)
            change = (mean / too_small1) / (ops.sqrt(square / too_small2) + self.epsilon)
            if self.decayed[number]:
                change = change + self.decay * weight
                if self.lamb:
                    size, wanted = ops.sqrt((change * change).sum()), ops.sqrt((weight * weight).sum())
                    change = change * ops.select(ops.logical_and(size > 0, wanted > 0), wanted / size, size / size)
            ops.assign(weight, weight - lr * change)
        return lr
