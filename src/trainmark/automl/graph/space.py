"""What a search space is: moves that make a child of a graph, within limits.

There is one for convolutional networks and one for transformers; `moves.py` has both, by the kinds of their moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from trainmark.automl.graph.graph import Graph, Layer, Shape, layer_size


class Move(msgspec.Struct, frozen=True, array_like=True):
    """What was done: `kind`, the layer it was done to, and a second number.

    | kind | layer | value |
    |---|---|---|
    | deeper | a ReLU | kernel of the convolution put after it (0: a dense layer) |
    | wider | a convolution or dense layer | its new width |
    | kernel | a convolution | its new kernel |
    | add, concat | where the skip ends, a batch norm | the ReLU it starts from |
    | block | what a new attention and MLP come after | heads of the attention |
    | heads | an attention | its new number of heads |
    | hidden | an MLP | its new hidden units |
    | channels | tokens or patches | channels of all tokens from now on |
    | context | tokens | tokens of a text from now on |
    | patch | patches | the new side of a patch |
    """

    kind: str
    layer: int
    value: int


class Limits(msgspec.Struct, frozen=True):
    """No child is larger. The defaults are NNI's; AIPerf has 2³⁰ and 300."""

    size: int = 2**24
    depth: int = 100
    kernel: int = 7
    # Of one text or image.
    tokens: int = 1024


class Impossible(Exception):
    """The move does not fit the graph."""


# Draws a move; None where the draw fits nowhere.
Draw = Callable[[], Move | None]


class Space(NamedTuple):
    """`apply` gives the child or raises `Impossible`; `preserving` says whether weights can be inherited so that the
    child computes what its parent does; `draws` has a function for each kind of move that a graph allows."""

    kinds: tuple[str, ...]
    apply: Callable[[Graph, Move], Graph]
    preserving: Callable[[Graph, Move], bool]
    draws: Callable[[Graph, Random, Limits], list[Draw]]


def insert(graph: Graph, at: int, added: Sequence[Layer], shapes: Sequence[Shape]) -> Graph:
    """Puts `added` after layer `at`: its readers now read the last of them."""
    last = len(graph.layers) + len(added) - 1
    layers = list(graph.layers)
    for reader in graph.consumers[at]:
        old = layers[reader]
        layers[reader] = old._replace(a=last if old.a == at else old.a, b=last if old.b == at else old.b)
    child = Graph(graph.shape, (*layers, *added))
    cut = graph.order.index(at) + 1
    news = range(len(graph.layers), last + 1)
    known = child.__dict__
    known["order"] = (*graph.order[:cut], *news, *graph.order[cut:])
    known["shapes"] = (*graph.shapes[:-1], *shapes, graph.shape)
    known["size"] = graph.size + sum(layer_size(layer, known["shapes"][layer.a]) for layer in added)
    return child


def replaced(graph: Graph, which: Sequence[int] | frozenset[int], **values: int) -> Graph:
    layers = list(graph.layers)
    for index in which:
        layers[index] = layers[index]._replace(**values)
    return Graph(graph.shape, tuple(layers))
