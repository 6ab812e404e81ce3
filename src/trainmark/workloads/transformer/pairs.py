"""Pairs of lines in two languages, as bytes, padded to one length; or synthetic.

A broken or missing file is an InputError that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from trainmark_job import InputError

PADDING, BEGIN, END, FIRST = 0, 1, 2, 3
KINDS = 256 + FIRST
SYNTHETIC_PAIRS = 1 << 22


class Batch(NamedTuple):
    """`answers` has one token more than the model reads; `count` is how many of its tokens are to be predicted."""

    questions: Tensor
    answers: Tensor
    count: int


class Lines:
    """Aligned lines of two files, cut to `context` tokens."""

    def __init__(self, questions: Path, answers: Path, context: int) -> None:
        both = [_read(path) for path in (questions, answers)]
        if len(both[0]) != len(both[1]):
            raise InputError(f"{questions} has {len(both[0])} lines, {answers} has {len(both[1])}")
        self._questions, self._answers = both
        self._context = context

    def __len__(self) -> int:
        return len(self._questions)

    def batch(self, indices: Any) -> Batch:
        shape = (len(indices), self._context)
        questions, answers = np.zeros(shape, np.int64), np.zeros((shape[0], shape[1] + 1), np.int64)
        for row, index in enumerate(indices):
            question = [*(byte + FIRST for byte in self._questions[index][: self._context - 1]), END]
            answer = [BEGIN, *(byte + FIRST for byte in self._answers[index][: self._context - 1]), END]
            questions[row, : len(question)], answers[row, : len(answer)] = question, answer
        return Batch(torch.from_numpy(questions), torch.from_numpy(answers), int((answers[:, 1:] != PADDING).sum()))


class Synthetic:
    """A language in which every word has one translation and sentences are said backwards. For speed only."""

    def __init__(self, context: int) -> None:
        self._context = context
        self._words = np.random.default_rng(0).permutation(KINDS - FIRST) + FIRST

    def __len__(self) -> int:
        return SYNTHETIC_PAIRS

    def batch(self, indices: Any) -> Batch:
        random = np.random.default_rng(int(indices[0]))
        # Short words are common in every language.
        drawn = (KINDS - FIRST) * random.random((len(indices), self._context)) ** 3
        questions = drawn.astype(np.int64) + FIRST
        answers = np.full((len(indices), self._context + 1), BEGIN, np.int64)
        answers[:, 1:] = self._words[questions[:, ::-1] - FIRST]
        return Batch(torch.from_numpy(questions), torch.from_numpy(answers), len(indices) * self._context)


def open_pairs(data: str | None, context: int) -> tuple[Lines | Synthetic, Lines | None, str]:
    """To train on, held out if there is any, and what was found."""
    if data is None or data == "synthetic":
        return Synthetic(context), None, "synthetic"
    root = Path(data)
    names = [root / f"{part}.{side}" for part in ("train", "val") for side in ("src", "tgt")]
    if not all(path.is_file() for path in names[:2]):
        raise InputError(f"{root} holds no train.src and train.tgt: lines of one language, and the same in the other")
    held_out = Lines(names[2], names[3], context) if all(path.is_file() for path in names[2:]) else None
    return Lines(names[0], names[1], context), held_out, "lines"


def _read(path: Path) -> list[bytes]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not lines:
        raise InputError(f"{path} is empty")
    return lines
