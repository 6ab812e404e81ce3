"""GPT-2 (Radford et al., 2019): learned positions, normalisation before each part, the head tied to the embedding."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from trainmark_layers import FIRST_STD, Attention, Dense, check_length, first_values, through


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=True, dropout=dropout)
        self.norm2 = nn.LayerNorm(width)
        self.dense = Dense(width, 4 * width, dropout, approximate="tanh")

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm1(hidden))
        answer: Tensor = hidden + self.dense(self.norm2(hidden))
        return answer


class GPT2(nn.Module):
    """Tokens (N, T) to scores of the token that follows each (N, T, vocabulary)."""

    def __init__(
        self,
        vocabulary: int,
        context: int,
        layers: int,
        heads: int,
        width: int,
        dropout: float,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        self.context, self.recompute = context, recompute
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        first_values(self)
        # What each block adds is smaller, so that the sum stays as large however many there are.
        for name, weight in self.named_parameters():
            if name.endswith("outward.weight"):
                nn.init.normal_(weight, std=FIRST_STD / (2 * layers) ** 0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        check_length(tokens, self.context)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.dropout(self.tokens(tokens) + self.positions(places))
        hidden = through(self.blocks, hidden, self.recompute)
        return functional.linear(self.norm(hidden), self.tokens.weight)
