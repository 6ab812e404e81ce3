"""Parts that language models share."""

from __future__ import annotations

from collections.abc import Iterable

import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from trainmark_job import InputError

FIRST_STD = 0.02


class Attention(nn.Module):
    """Every token looks at the others, or at those before it."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.causal, self.rate = heads, causal, dropout
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        parts = self.inward(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        rate = self.rate if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=rate, is_causal=self.causal)
        answer: Tensor = self.dropout(self.outward(mixed.transpose(1, 2).reshape(batch, length, width)))
        return answer


class Dense(nn.Module):
    """To `inner` values, GELU, and back."""

    def __init__(self, width: int, inner: int, dropout: float, approximate: str) -> None:
        super().__init__()
        self.inward = nn.Linear(width, inner)
        self.gelu = nn.GELU(approximate)
        self.outward = nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        answer: Tensor = self.dropout(self.outward(self.gelu(self.inward(hidden))))
        return answer


def through(blocks: Iterable[nn.Module], hidden: Tensor, recompute: bool) -> Tensor:
    """The blocks one after the other; with `recompute` they keep only their input and do the rest twice."""
    for block in blocks:
        hidden = checkpoint(block, hidden, use_reentrant=False) if recompute and block.training else block(hidden)
    return hidden


def check_heads(width: int, heads: int) -> None:
    if width % heads:
        raise InputError(f"width {width} cannot be divided among {heads} heads")


def check_length(tokens: Tensor, context: int) -> None:
    if tokens.shape[1] > context:
        raise InputError(f"{tokens.shape[1]} tokens are more than the context of {context}")


def first_values(model: nn.Module) -> None:
    """Small random weights; biases begin at zero."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=FIRST_STD)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
