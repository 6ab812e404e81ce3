"""BERT with its masked-language head, tied to the embedding, in PaddlePaddle's layers."""

from __future__ import annotations

import math
from typing import Any

import paddle
import paddle.nn.functional as functional
from paddle import nn
from shared import EPSILON


def norm(width: int) -> nn.Layer:
    return nn.LayerNorm(width, EPSILON)


class Attention(nn.Layer):
    """Every token looks at all others."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.part = heads, width // heads
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Any) -> Any:
        batch, length, width = hidden.shape
        parts = self.inward(hidden).reshape([batch, length, 3, self.heads, self.part]).transpose([2, 0, 3, 1, 4])
        scores = paddle.matmul(parts[0], parts[1], transpose_y=True) / math.sqrt(self.part)
        mixed = paddle.matmul(self.dropout(functional.softmax(scores, -1)), parts[2])
        return self.dropout(self.outward(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, width])))


class Dense(nn.Layer):
    """To `inner` values, GELU, and back."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.inward, self.outward = nn.Linear(width, inner), nn.Linear(inner, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Any) -> Any:
        return self.dropout(self.outward(functional.gelu(self.inward(hidden))))


class Block(nn.Layer):
    """Normalised after each part, as BERT is."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads, dropout), norm(width)
        self.dense, self.norm2 = Dense(width, inner, dropout), norm(width)

    def forward(self, hidden: Any) -> Any:
        hidden = self.norm1(hidden + self.attention(hidden))
        return self.norm2(hidden + self.dense(hidden))


class Bert(nn.Layer):
    """Tokens (N, T) and the places (N, K) to be guessed, to scores (N, K, rows)."""

    def __init__(self, rows: int, params: dict[str, Any]) -> None:
        super().__init__()
        width, length = params["width"], params["max_seq_length"]
        shape = (width, params["heads"], params["inner"], params["dropout"])
        self.tokens, self.positions = nn.Embedding(rows, width), nn.Embedding(length, width)
        self.segments, self.norm = nn.Embedding(2, width), norm(width)
        self.dropout = nn.Dropout(params["dropout"])
        self.blocks = nn.LayerList([Block(*shape) for _ in range(params["layers"])])
        self.guess, self.guess_norm = nn.Linear(width, width), norm(width)
        self.bias = self.create_parameter([rows], is_bias=True)

    def forward(self, tokens: Any, places: Any) -> Any:
        order = paddle.arange(tokens.shape[1])
        # All text is of the first segment: there are no pairs of sentences here.
        hidden = self.tokens(tokens) + self.positions(order) + self.segments(paddle.zeros_like(order))
        hidden = self.dropout(self.norm(hidden))
        for block in self.blocks:
            hidden = block(hidden)
        # Only what was hidden is guessed, which spares most of the head.
        hidden = paddle.take_along_axis(hidden, places.astype("int64").unsqueeze(-1), 1)
        hidden = self.guess_norm(functional.gelu(self.guess(hidden)))
        return paddle.matmul(hidden, self.tokens.weight, transpose_y=True) + self.bias
