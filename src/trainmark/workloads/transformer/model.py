"""The encoder and decoder of translation (Vaswani et al., 2017), normalised before each part."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from trainmark_layers import Attention, Dense, check_heads, check_length, first_values, through


class Across(nn.Module):
    """Every token of the answer looks at all tokens of the question."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        check_heads(width, heads)
        self.heads, self.rate = heads, dropout
        self.query = nn.Linear(width, width)
        self.both = nn.Linear(width, 2 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, hidden: Tensor, question: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        query = self.query(hidden).view(batch, length, self.heads, -1).transpose(1, 2)
        parts = self.both(question).view(batch, question.shape[1], 2, self.heads, -1)
        key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        rate = self.rate if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(query, key, value, dropout_p=rate)
        answer: Tensor = self.outward(mixed.transpose(1, 2).reshape(batch, length, width))
        return answer


class Reader(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, causal=False, dropout=dropout)
        self.dense = Dense(width, inner, dropout, approximate="none")

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm1(hidden))
        answer: Tensor = hidden + self.dense(self.norm2(hidden))
        return answer


class Writer(nn.Module):
    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attention = Attention(width, heads, causal=True, dropout=dropout)
        self.across = Across(width, heads, dropout)
        self.dense = Dense(width, inner, dropout, approximate="none")

    def forward(self, hidden: Tensor, question: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm1(hidden))
        hidden = hidden + self.across(self.norm2(hidden), question)
        answer: Tensor = hidden + self.dense(self.norm3(hidden))
        return answer


class Transformer(nn.Module):
    """Questions (N, S) and answers so far (N, T) to scores of the next token (N, T, vocabulary).

    Questions are padded to one length and the padding is looked at like any token: it is always the same.
    """

    def __init__(
        self, vocabulary: int, context: int, layers: int, heads: int, width: int, inner: int, dropout: float
    ) -> None:
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.readers = nn.ModuleList(Reader(width, heads, inner, dropout) for _ in range(layers))
        self.writers = nn.ModuleList(Writer(width, heads, inner, dropout) for _ in range(layers))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        first_values(self)

    def forward(self, question: Tensor, answer: Tensor) -> Tensor:
        read = self.norm1(through(self.readers, self._embed(question), recompute=False))
        hidden = self._embed(answer)
        for writer in self.writers:
            hidden = writer(hidden, read)
        return functional.linear(self.norm2(hidden), self.tokens.weight)

    def _embed(self, tokens: Tensor) -> Tensor:
        check_length(tokens, self.context)
        places = torch.arange(tokens.shape[1], device=tokens.device)
        embedded: Tensor = self.tokens(tokens) + self.positions(places)
        return embedded
