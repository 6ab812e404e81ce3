"""Vision Transformer (Dosovitskiy et al., 2021): a picture as a row of patches, and one more for the answer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from trainmark_job import InputError
from trainmark_layers import FIRST_STD, Attention, Dense, first_values, through


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads, causal=False, dropout=0.0)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.dense = Dense(width, inner, 0.0, approximate="none")

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attention(self.norm1(hidden))
        answer: Tensor = hidden + self.dense(self.norm2(hidden))
        return answer


class ViT(nn.Module):
    """Pictures (N, 3, size, size) to scores of the classes."""

    def __init__(
        self,
        size: int,
        patch: int,
        classes: int,
        layers: int,
        heads: int,
        width: int,
        inner: int,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        if size % patch:
            raise InputError(f"pictures of {size} pixels cannot be cut into patches of {patch}: set patch")
        self.recompute = recompute
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.answer = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.empty(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)
        first_values(self)
        nn.init.normal_(self.positions, std=FIRST_STD)

    def forward(self, images: Tensor) -> Tensor:
        row = self.patches(images).flatten(2).transpose(1, 2)
        hidden = torch.cat((self.answer.expand(len(row), -1, -1), row), 1) + self.positions
        hidden = through(self.blocks, hidden, self.recompute)
        scores: Tensor = self.head(self.norm(hidden[:, 0]))
        return scores
