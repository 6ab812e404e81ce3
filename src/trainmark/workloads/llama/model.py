"""Llama (Touvron et al., 2023): rotated positions, RMS normalisation, SwiGLU, several heads sharing keys and values."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from trainmark_job import InputError
from trainmark_layers import check_heads, check_length, first_values, through


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, hidden: Tensor) -> Tensor:
        # In 32 bits, as a sum of squares soon leaves the range of shorter formats.
        wide = hidden.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(hidden.dtype) * self.weight


def turns(context: int, size: int, base: float) -> Tensor:
    """(2, context, size / 2): cosine and sine by which each pair of values is turned at each place."""
    speed = base ** (-torch.arange(0, size, 2, dtype=torch.float32) / size)
    angle = torch.arange(context, dtype=torch.float32)[:, None] * speed
    return torch.stack((angle.cos(), angle.sin()))


def turn(values: Tensor, by: Tensor) -> Tensor:
    """Turn (N, heads, T, size) at T places; a product of two turned vectors tells how far apart they are."""
    cos, sin = by[:, : values.shape[2]].to(values.dtype)
    left, right = values.chunk(2, -1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), -1)


class GroupedAttention(nn.Module):
    """`heads` that ask, `kv_heads` that answer: each of these serves a group of the others."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        check_heads(width, heads)
        if heads % kv_heads or width // heads % 2:
            raise InputError(f"{heads} heads of {width // heads} values cannot share {kv_heads} kv_heads in pairs")
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, kv_heads * self.size, bias=False)
        self.value = nn.Linear(width, kv_heads * self.size, bias=False)
        self.outward = nn.Linear(width, width, bias=False)

    def forward(self, hidden: Tensor, by: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        query, key, value = (
            linear(hidden).view(batch, length, -1, self.size).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        query, key = turn(query, by), turn(key, by)
        if self.kv_heads != self.heads:
            key, value = (part.repeat_interleave(self.heads // self.kv_heads, 1) for part in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        answer: Tensor = self.outward(mixed.transpose(1, 2).reshape(batch, length, width))
        return answer


class SwiGLU(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.inward = nn.Linear(width, inner, bias=False)
        self.outward = nn.Linear(inner, width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        answer: Tensor = self.outward(functional.silu(self.gate(hidden)) * self.inward(hidden))
        return answer


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, inner: int, by: Tensor) -> None:
        super().__init__()
        # A constant, not a buffer: it is in no checkpoint, and ranks need not send it to each other.
        self.by = by
        self.norm1 = RMSNorm(width)
        self.attention = GroupedAttention(width, heads, kv_heads)
        self.norm2 = RMSNorm(width)
        self.dense = SwiGLU(width, inner)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm1(hidden), self.by)
        answer: Tensor = hidden + self.dense(self.norm2(hidden))
        return answer

    def _apply(self, fn: Any, recurse: Any = True) -> Block:
        """Constants move to the device with the weights."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.by = fn(self.by)
        return self


class Llama(nn.Module):
    """Tokens (N, T) to scores of the token that follows each (N, T, vocabulary)."""

    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        heads: int,
        kv_heads: int,
        width: int,
        inner: int,
        rope_base: float,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.context, self.recompute = context, recompute
        self.tokens = nn.Embedding(vocabulary, width)
        by = turns(context, width // heads, rope_base)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, inner, by) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        first_values(self)

    def forward(self, tokens: Tensor) -> Tensor:
        check_length(tokens, self.context)
        hidden = through(self.blocks, self.tokens(tokens), self.recompute)
        scores: Tensor = self.head(self.norm(hidden))
        return scores
