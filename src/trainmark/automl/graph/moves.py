"""Morphisms of both search spaces: a move makes a child of a graph, most so that weights can be inherited."""

from __future__ import annotations

from random import Random

from trainmark.automl.graph import convolution_moves, transformer_moves
from trainmark.automl.graph.graph import CONV, DENSE, DROPOUT, Graph, Layer
from trainmark.automl.graph.space import Impossible, Limits, Move, Space
from trainmark.reasons import Reason, reason

SPACES = (convolution_moves.SPACE, transformer_moves.SPACE)


def in_words(move: Move) -> Reason:
    """For people."""
    kind = "deeper-dense" if move.kind == "deeper" and not move.value else move.kind
    return reason(f"automl-move-{kind}", layer=move.layer, value=move.value)


def apply(graph: Graph, move: Move) -> Graph:
    """The child. `Impossible` says why there is none."""
    if not 0 <= move.layer < len(graph.layers):
        raise Impossible(f"no layer {move.layer}")
    return _space_of(move).apply(graph, move)


def preserving(graph: Graph, move: Move) -> bool:
    """Whether weights can be inherited so that the child computes what its parent does: not where it shrinks."""
    return _space_of(move).preserving(graph, move)


def carries(graph: Graph, move: Move) -> bool:
    """Whether a child begins with its parent's weights. With finer patches it does, but computes something else."""
    return preserving(graph, move) or (move.kind == "patch" and move.value <= graph.layers[move.layer].kernel)


def _space_of(move: Move) -> Space:
    for space in SPACES:
        if move.kind in space.kinds:
            return space
    raise Impossible(f"no move `{move.kind}`")


def neighbours(graph: Graph, rng: Random, n: int, limits: Limits | None = None) -> list[tuple[Move, Graph]]:
    """Up to `n` different moves drawn at random, each with the child it makes; none shrinks or is past the limits."""
    limits = limits or Limits()
    makers = [draw for space in SPACES for draw in space.draws(graph, rng, limits)]
    found: dict[Move, Graph] = {}
    for _ in range(8 * n if makers else 0):
        if len(found) >= n:
            break
        move = rng.choice(makers)()
        if move is None or move in found:
            continue
        child = apply(graph, move)
        if child.size <= limits.size and child.depth <= limits.depth:
            found[move] = child
    return list(found.items())


# ---- hyper-parameters that change the graph


def tuned(graph: Graph, body: int, kernel: int | None, dropout: float | None) -> Graph:
    """The graph with another kernel in convolutions that the search added (layers from number `body` on, where the
    kernel does not change the map), and another dropout rate."""
    layers = list(graph.layers)
    if kernel is not None:
        for index in range(body, len(layers)):
            layer = layers[index]
            if layer.op == CONV and layer.kernel > 1 and layer.kernel % 2 == kernel % 2:
                layers[index] = layer._replace(kernel=kernel)
    if dropout is not None:
        _set_dropout(graph, layers, round(dropout * 1e6))
    return graph if tuple(layers) == graph.layers else Graph(graph.shape, tuple(layers))


def _set_dropout(graph: Graph, layers: list[Layer], rate: int) -> None:
    """In all dropout layers; a network without any gets one before its last dense layer."""
    found = [index for index, layer in enumerate(layers) if layer.op == DROPOUT]
    for index in found:
        layers[index] = layers[index]._replace(extra=rate)
    last = [index for index in graph.order if layers[index].op == DENSE]
    if not found and last and rate:
        reads = layers[last[-1]].a
        layers.append(Layer(DROPOUT, reads, extra=rate))
        layers[last[-1]] = layers[last[-1]]._replace(a=len(layers) - 1)
