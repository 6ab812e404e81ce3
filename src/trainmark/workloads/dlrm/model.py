"""DLRM (Naumov et al., 2019): numbers through dense layers, categories through tables, products of all pairs."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

FIRST_STD = 0.05


def dense(sizes: list[int], last_active: bool) -> nn.Sequential:
    parts: list[nn.Module] = []
    for number, (before, after) in enumerate(pairwise(sizes), 1):
        parts.append(nn.Linear(before, after))
        if last_active or number < len(sizes) - 1:
            parts.append(nn.ReLU())
    return nn.Sequential(*parts)


class DLRM(nn.Module):
    """Numbers (N, numbers) and categories (N, tables) to one score each (N): above 0 is a click."""

    def __init__(self, numbers: int, tables: int, rows: int, width: int, bottom: list[int], top: list[int]) -> None:
        super().__init__()
        # One matrix for all tables: one lookup instead of many, and rows are found by an offset.
        self.table = nn.Embedding(tables * rows, width)
        self.bottom = dense([numbers, *bottom, width], last_active=True)
        self.top = dense([width + (tables + 1) * tables // 2, *top, 1], last_active=False)
        self.tables, self.rows = tables, rows
        nn.init.normal_(self.table.weight, std=FIRST_STD)

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        first = self.bottom(numbers)
        offsets = torch.arange(self.tables, device=categories.device) * self.rows
        all_of_them = torch.cat((first[:, None], self.table(categories + offsets)), 1)
        products = all_of_them @ all_of_them.transpose(1, 2)
        row, column = torch.tril_indices(self.tables + 1, self.tables + 1, -1, device=numbers.device)
        scores: Tensor = self.top(torch.cat((first, products[:, row, column]), 1))
        return scores.squeeze(1)
