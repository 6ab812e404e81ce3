"""BERT (Devlin et al., 2018) with its masked-language head, tied to the embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from trainmark_layers import Attention, Dense, check_length, first_values, through

EPSILON = 1e-12


class Block(nn.Module):
    """Normalised after each part, as BERT is."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal=False, dropout=dropout)
        self.norm1 = nn.LayerNorm(width, EPSILON)
        self.dense = Dense(width, inner, dropout, approximate="none")
        self.norm2 = nn.LayerNorm(width, EPSILON)

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = self.norm1(hidden + self.attention(hidden))
        answer: Tensor = self.norm2(hidden + self.dense(hidden))
        return answer


class Bert(nn.Module):
    """Tokens (N, T) and the places (N, K) to be guessed, to scores (N, K, vocabulary)."""

    def __init__(
        self,
        vocabulary: int,
        length: int,
        layers: int,
        heads: int,
        width: int,
        inner: int,
        dropout: float,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.length, self.recompute = length, recompute
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, inner, dropout) for _ in range(layers))
        self.guess = nn.Linear(width, width)
        self.guess_norm = nn.LayerNorm(width, EPSILON)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        first_values(self)

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        check_length(tokens, self.length)
        order = torch.arange(tokens.shape[1], device=tokens.device)
        # All text is of the first segment: there are no pairs of sentences here.
        hidden = self.tokens(tokens) + self.positions(order) + self.segments(torch.zeros_like(order))
        hidden = through(self.blocks, self.dropout(self.norm(hidden)), self.recompute)
        # Only what was hidden is guessed, which spares most of the head.
        hidden = hidden.gather(1, places[..., None].expand(-1, -1, hidden.shape[-1]))
        hidden = self.guess_norm(functional.gelu(self.guess(hidden)))
        return functional.linear(hidden, self.tokens.weight, self.bias)
