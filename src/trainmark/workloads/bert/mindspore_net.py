"""BERT with its masked-language head, tied to the embedding, in MindSpore's cells."""

from __future__ import annotations

import math
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from shared import EPSILON
from trainmark_mindspore import dense


def norm(width: int) -> nn.Cell:
    return nn.LayerNorm((width,), epsilon=EPSILON)


def embedding(rows: int, width: int) -> nn.Cell:
    return nn.Embedding(rows, width, embedding_table="zeros")


class Gelu(nn.Cell):
    """The exact one."""

    def construct(self, hidden):  # type: ignore[no-untyped-def]
        return 0.5 * hidden * (1.0 + ops.erf(hidden * 0.7071067811865476))


class Attention(nn.Cell):
    """Every token looks at all others."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.part, self.scale = heads, width // heads, 1 / math.sqrt(width // heads)
        self.inward, self.outward = dense(width, 3 * width), dense(width, width)
        self.dropout = nn.Dropout(p=dropout)

    def construct(self, hidden):  # type: ignore[no-untyped-def]
        batch, length, width = hidden.shape
        parts = self.inward(hidden).reshape((batch, length, 3, self.heads, self.part)).transpose((2, 0, 3, 1, 4))
        scores = ops.matmul(parts[0], parts[1].swapaxes(2, 3)) * self.scale
        mixed = ops.matmul(self.dropout(ops.softmax(scores, -1)), parts[2])
        return self.dropout(self.outward(mixed.swapaxes(1, 2).reshape((batch, length, width))))


class Dense(nn.Cell):
    """To `inner` values, GELU, and back."""

    def __init__(self, width: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.inward, self.outward = dense(width, inner), dense(inner, width)
        self.gelu, self.dropout = Gelu(), nn.Dropout(p=dropout)

    def construct(self, hidden):  # type: ignore[no-untyped-def]
        return self.dropout(self.outward(self.gelu(self.inward(hidden))))


class Block(nn.Cell):
    """Normalised after each part, as BERT is."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(width, heads, dropout), norm(width)
        self.dense, self.norm2 = Dense(width, inner, dropout), norm(width)

    def construct(self, hidden):  # type: ignore[no-untyped-def]
        hidden = self.norm1(hidden + self.attention(hidden))
        return self.norm2(hidden + self.dense(hidden))


class Bert(nn.Cell):
    """Tokens (N, T) and the places (N, K) to be guessed, to scores (N, K, rows)."""

    def __init__(self, rows: int, params: dict[str, Any]) -> None:
        super().__init__()
        width, length = params["width"], params["max_seq_length"]
        shape = (width, params["heads"], params["inner"], params["dropout"])
        self.tokens, self.positions = embedding(rows, width), embedding(length, width)
        self.segments, self.norm = embedding(2, width), norm(width)
        self.dropout = nn.Dropout(p=params["dropout"])
        self.blocks = nn.CellList([Block(*shape) for _ in range(params["layers"])])
        self.guess, self.guess_norm, self.gelu = dense(width, width), norm(width), Gelu()
        self.bias = Parameter(Tensor(np.zeros(rows, np.float32)), name="bias")
        self.order = Tensor(np.arange(length), ms.int32)
        self.first = Tensor(np.zeros(length), ms.int32)
        self.width = width

    def construct(self, tokens, places):  # type: ignore[no-untyped-def]
        # All text is of the first segment: there are no pairs of sentences here.
        hidden = self.tokens(tokens) + self.positions(self.order) + self.segments(self.first)
        hidden = self.dropout(self.norm(hidden))
        for block in self.blocks:
            hidden = block(hidden)
        # Only what was hidden is guessed, which spares most of the head.
        chosen = places.expand_dims(2).broadcast_to((places.shape[0], places.shape[1], self.width))
        hidden = self.guess_norm(self.gelu(self.guess(ops.gather_elements(hidden, 1, chosen))))
        return ops.matmul(hidden, self.tokens.embedding_table.T) + self.bias


class CrossEntropy(nn.Cell):
    """The mean loss of a batch of guesses."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, tokens, places, labels):  # type: ignore[no-untyped-def]
        logs = ops.log_softmax(self.net(tokens, places).astype(ms.float32), -1)
        return -ops.gather_elements(logs, 2, labels.expand_dims(2)).mean()


class Correct(nn.Cell):
    """Right guesses, loss and number of the guesses in sequences that count."""

    def __init__(self, net: nn.Cell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, tokens, places, labels, counts):  # type: ignore[no-untyped-def]
        scores = self.net(tokens, places).astype(ms.float32)
        each = counts.expand_dims(1) * ops.ones_like(labels).astype(ms.float32)
        right = (scores.argmax(2).astype(ms.int32) == labels).astype(ms.float32)
        loss = -ops.gather_elements(ops.log_softmax(scores, -1), 2, labels.expand_dims(2)).reshape(labels.shape)
        return ops.stack(((right * each).sum(), (loss * each).sum(), each.sum()))
