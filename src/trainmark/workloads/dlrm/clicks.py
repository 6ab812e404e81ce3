"""Click logs: lines as Criteo publishes them, arrays made of them elsewhere, or synthetic.

A line is `label TAB 13 numbers TAB 26 categories`, numbers in decimal, categories in hexadecimal, any of them empty.
A broken or missing file is an InputError that names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from trainmark_job import InputError

NUMBERS, TABLES = 13, 26
FIELDS = 1 + NUMBERS + TABLES
ARRAYS = {"labels": 1, "numbers": 2, "categories": 2}
# The share at the end that is held out.
HELD_OUT = 10
SYNTHETIC_SAMPLES = 1 << 22


class Batch(NamedTuple):
    numbers: Tensor
    categories: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Clicks:
    """Samples from `first` to `end` of three arrays of equal length."""

    labels: Any
    numbers: Any
    categories: Any
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def batch(self, indices: Any, rows: int) -> Batch:
        at = indices + self.first
        # Counts grow like powers; categories beyond the table share its rows.
        numbers = np.log1p(np.maximum(np.asarray(self.numbers[at], np.float32), 0))
        categories = np.asarray(self.categories[at], np.int64) % rows
        labels = np.asarray(self.labels[at], np.float32)
        return Batch(torch.from_numpy(numbers), torch.from_numpy(categories), torch.from_numpy(labels))


class Synthetic:
    """Random features; a click depends on some of them, so there is something to learn. For speed only."""

    def __len__(self) -> int:
        return SYNTHETIC_SAMPLES

    def batch(self, indices: Any, rows: int) -> Batch:
        random = np.random.default_rng(int(indices[0]))
        count = len(indices)
        numbers = random.normal(0, 1, (count, NUMBERS)).astype(np.float32)
        # Few categories are common and most are rare, as in life.
        categories = (rows * random.random((count, TABLES)) ** 3).astype(np.int64)
        tendency = numbers[:, :4].sum(1) + np.where(categories[:, :4] % 2, 1.0, -1.0).sum(1)
        labels = (random.random(count) < 1 / (1 + np.exp(-tendency))).astype(np.float32)
        return Batch(torch.from_numpy(numbers), torch.from_numpy(categories), torch.from_numpy(labels))


def open_clicks(data: str | None) -> tuple[Clicks | Synthetic, Clicks | None, str]:
    """To train on, held out, and what was found."""
    if data is None or data == "synthetic":
        return Synthetic(), None, "synthetic"
    path = Path(data)
    if not path.exists():
        raise InputError(f"data {path} does not exist")
    arrays, kind = (_arrays(path), "arrays") if path.is_dir() else (_lines(path), "lines")
    labels = arrays["labels"]
    edge = len(labels) - len(labels) // HELD_OUT
    if edge == len(labels):
        raise InputError(f"{path} has {len(labels)} samples; at least {HELD_OUT} are needed")
    return Clicks(**arrays, first=0, end=edge), Clicks(**arrays, first=edge, end=len(labels)), kind


def _arrays(folder: Path) -> dict[str, Any]:
    found = {}
    for name, dimensions in ARRAYS.items():
        file = folder / f"{name}.npy"
        try:
            found[name] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{file} cannot be read: {error}") from None
        if found[name].ndim != dimensions or len(found[name]) != len(found["labels"]):
            raise InputError(f"{file} has the shape {found[name].shape}, labels.npy {found['labels'].shape}")
    for name, wanted in (("numbers", NUMBERS), ("categories", TABLES)):
        if found[name].shape[1] != wanted:
            raise InputError(f"{folder / name}.npy has {found[name].shape[1]} columns, wanted are {wanted}")
    return found


def _lines(file: Path) -> dict[str, Any]:
    labels, numbers, categories = [], [], []
    try:
        with file.open(encoding="ascii") as lines:
            for number, line in enumerate(lines, 1):
                fields = line.rstrip("\n").split("\t")
                if len(fields) != FIELDS:
                    raise InputError(f"{file}: line {number} has {len(fields)} fields, wanted are {FIELDS}")
                try:
                    labels.append(_label(fields[0]))
                    numbers.append([float(field or 0) for field in fields[1 : 1 + NUMBERS]])
                    categories.append([int(field or "0", 16) for field in fields[1 + NUMBERS :]])
                except ValueError as error:
                    raise InputError(f"{file}: line {number}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    if not labels:
        raise InputError(f"{file} is empty")
    return {
        "labels": np.array(labels, np.float32),
        "numbers": np.array(numbers, np.float32),
        "categories": np.array(categories, np.int64),
    }


def _label(text: str) -> int:
    if text not in ("0", "1"):
        raise ValueError(f"the label is {text!r}, allowed is 0 or 1")
    return int(text)
