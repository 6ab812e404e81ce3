"""LAMB (You et al., 2019): Adam, with each layer's update scaled to the size of its weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Lamb(torch.optim.Optimizer):
    """Weights without decay (biases, normalisation) take the plain Adam update, as is usual."""

    def __init__(
        self, params: list[dict[str, Any]], lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # noqa: ARG002
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(group, weight)

    def _update(self, group: dict[str, Any], weight: Tensor) -> None:
        state, (beta1, beta2) = self.state[weight], group["betas"]
        if not state:
            state["step"] = torch.zeros(())
            state["mean"], state["square"] = torch.zeros_like(weight), torch.zeros_like(weight)
        state["step"] += 1
        steps = float(state["step"])
        state["mean"].lerp_(weight.grad, 1 - beta1)
        state["square"].mul_(beta2).addcmul_(weight.grad, weight.grad, value=1 - beta2)
        # The means began at zero and are that much too small.
        mean, square = state["mean"] / (1 - beta1**steps), state["square"] / (1 - beta2**steps)
        change = mean.div_(square.sqrt_().add_(group["eps"]))
        if group["weight_decay"]:
            change.add_(weight, alpha=group["weight_decay"])
            size, wanted = change.norm(), weight.norm()
            ratio = torch.where((size > 0) & (wanted > 0), wanted / size, torch.ones_like(size))
            change.mul_(ratio)
        weight.add_(change, alpha=-group["lr"])
