"""What several PyTorch models share: layers, first weights, the loss on held out text, models of `transformers`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from trainmark_job import InputError
from trainmark_loop import alive
from trainmark_text import IGNORED
from trainmark_torch import Ranks

FIRST_STD = 0.02
# Nothing is fetched: only the definitions of models are used.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


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


def held_out_loss(model: nn.Module, windows: Iterator[Any], ranks: Ranks) -> dict[str, float]:
    """Of a causal language model, in nats per token, over the windows of all ranks."""
    sums = torch.zeros(2, device=ranks.device)
    for tokens, _, counts in alive(windows):
        labels = tokens[:, 1:].masked_fill(~counts[:, None], IGNORED)
        scores = model(tokens[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
        sums += torch.stack((loss, (labels != IGNORED).sum())).float()
    total, count = ranks.total(*sums.tolist())
    return {"loss": total / count}


def open_transformers() -> Any:
    """The package `transformers`."""
    os.environ.update(OFFLINE)
    try:
        import transformers
    except ImportError:
        raise InputError("this workload needs the package transformers: pip install 'trainmark[hub]'") from None
    return transformers


class Scores(nn.Module):
    """A causal model of `transformers`: tokens (N, T) to scores of the token that follows each (N, T, vocabulary)."""

    def __init__(self, model: Any, recompute: bool) -> None:
        super().__init__()
        self.inner = model
        if recompute:
            self.inner.gradient_checkpointing_enable()

    def forward(self, tokens: Tensor) -> Tensor:
        # Without a mask the package looks at values, of which there are none when operations are only counted.
        length = tokens.shape[1]
        mask = torch.ones(1, 1, length, length, dtype=torch.bool) if tokens.is_meta else None
        scores: Tensor = self.inner(input_ids=tokens, attention_mask=mask).logits
        return scores
