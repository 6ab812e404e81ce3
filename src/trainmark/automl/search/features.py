"""Graphs as vectors: how often each neighbourhood of layers occurs, by Weisfeiler and Lehman, many graphs in one pass.

A layer begins with a label of its own settings. Each round mixes into it the labels of those it reads and of those that
read it, so that after three it stands for all within three steps. Labels are hashed into columns and counted. Widths
are counted twice, exactly and not at all, so that what was learnt of one width holds for others, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from trainmark.automl.graph.graph import Graph

Numbers = np.ndarray[Any, Any]

WIDTH = 512  # columns
SIZES = 8  # of these the last: a few figures of the whole graph
ROUNDS = 3
_FIELDS = 7
_MASK = 2**64 - 1
_ONE, _TWO, _THREE, _FOUR = (
    np.uint64(number) for number in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
)
_HALF = np.uint64(33)


class Features(NamedTuple):
    """`rows`: one of length 1 for each graph. `marks`: equal for equal graphs, and hardly ever for others."""

    rows: Numbers
    marks: list[int]


def features(graphs: Sequence[Graph]) -> Features:
    flat = _Flat(graphs)
    counts = np.zeros((len(graphs), WIDTH - SIZES))
    marks: list[int] = []
    for fields, rounds in (((0, 3, 4, 5, 6), ROUNDS), ((0, 4, 5), 1)):
        label = flat.labels(fields)
        flat.count(counts, label, 0, len(fields))
        for turn in range(1, rounds + 1):
            label = flat.mixed(label)
            flat.count(counts, label, turn, len(fields))
        if not marks:
            marks = np.add.reduceat(_mix(label + _TWO), flat.begins).tolist()
    rows = np.concatenate((np.sqrt(counts), _sizes(graphs)), axis=1)
    rows /= np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return Features(rows, marks)


class _Flat:
    """All layers of all graphs in one array, and which reads which."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        sizes = np.fromiter((len(graph.layers) for graph in graphs), np.int64, len(graphs))
        ends = np.cumsum(sizes)
        self.begins = ends - sizes
        numbers = chain.from_iterable(chain.from_iterable(graph.layers for graph in graphs))
        self._layers = np.fromiter(numbers, np.int64, _FIELDS * int(ends[-1])).reshape(-1, _FIELDS)
        self._graph = np.repeat(np.arange(len(graphs)), sizes)
        shift = np.repeat(self.begins, sizes)
        first, second = self._layers[:, 1], self._layers[:, 2]
        one, two = np.flatnonzero(first >= 0), np.flatnonzero(second >= 0)
        self._from = np.concatenate((first[one] + shift[one], second[two] + shift[two]))
        self._to = np.concatenate((one, two))

    def labels(self, fields: Sequence[int]) -> Numbers:
        label = np.zeros(len(self._layers), np.uint64)
        for field in fields:
            label = _mix(label * _ONE + self._layers[:, field].astype(np.uint64) + _THREE)
        return label

    def mixed(self, label: Numbers) -> Numbers:
        """Each with those before and after it; sums do not care in which order they are met."""
        before, after = _mix(label + _THREE), _mix(label + _FOUR)
        read, readers = np.zeros_like(label), np.zeros_like(label)
        np.add.at(read, self._to, before[self._from])
        np.add.at(readers, self._from, after[self._to])
        return _mix(label * _ONE + _mix(read) * _THREE + _mix(readers) * _FOUR)

    def count(self, counts: Numbers, label: Numbers, turn: int, kind: int) -> None:
        columns = counts.shape[1]
        salt = np.uint64((turn * int(_FOUR) + kind * int(_THREE)) & _MASK)
        column = (_mix(label + salt) % np.uint64(columns)).astype(np.int64)
        counts += np.bincount(self._graph * columns + column, minlength=counts.size).reshape(counts.shape)


def _mix(label: Numbers) -> Numbers:
    label = (label ^ (label >> _HALF)) * _ONE
    label = (label ^ (label >> _HALF)) * _TWO
    mixed: Numbers = label ^ (label >> _HALF)
    return mixed


def _sizes(graphs: Sequence[Graph]) -> Numbers:
    """How large and how deep, in logarithms, spread over a few columns so that a straight line can bend."""
    found = np.empty((len(graphs), 2))
    for row, graph in zip(found, graphs, strict=True):
        row[:] = graph.size, graph.depth
    logs = np.log2(found)
    angles = np.concatenate((logs / 4, logs / 2), axis=1)
    return np.concatenate((np.sin(angles), np.cos(angles)), axis=1)
