"""Moves of transformers: more blocks, heads, hidden units, channels, a longer context, finer patches.

All but finer patches keep what is computed. Channels only double: a layer norm of channels that are all there twice
is that of the channels, and of no other number of them.
"""

from __future__ import annotations

from random import Random

from trainmark.automl.graph.graph import ATTENTION, MAX_WIDTH, MLP, PATCHES, TOKENS, Graph, Layer
from trainmark.automl.graph.space import Draw, Impossible, Limits, Move, Space, insert, replaced

KINDS = ("block", "heads", "hidden", "channels", "context", "patch")
# A new MLP has so many hidden units per channel where the network has no other to be like.
_RATIO = 4


def apply(graph: Graph, move: Move) -> Graph:
    layer = graph.layers[move.layer]
    wanted = _DONE_TO[move.kind]
    if layer.op not in wanted or not 1 <= move.value <= MAX_WIDTH:
        raise Impossible(f"layer {move.layer} cannot be changed by `{move.kind}` to {move.value}")
    if move.kind == "block":
        return _block(graph, move)
    if move.kind in ("heads", "hidden"):
        return replaced(graph, [move.layer], width=move.value)
    if move.kind == "channels":
        if move.value not in (layer.width, 2 * layer.width):
            raise Impossible(f"{layer.width} channels can only become {2 * layer.width}")
        return replaced(graph, [move.layer], width=move.value)
    if move.kind == "context":
        changed = replaced(graph, [move.layer], extra=move.value)
        return Graph((move.value,), changed.layers)
    height, width, _ = graph.shapes[layer.a]
    if height % move.value or width % move.value:
        raise Impossible(f"{height} × {width} is not cut evenly into patches of {move.value}")
    return replaced(graph, [move.layer], kernel=move.value)


# Kinds of layers that each kind of move is done to.
_DONE_TO = {
    "block": (TOKENS, PATCHES, ATTENTION, MLP),
    "heads": (ATTENTION,),
    "hidden": (MLP,),
    "channels": (TOKENS, PATCHES),
    "context": (TOKENS,),
    "patch": (PATCHES,),
}


def _block(graph: Graph, move: Move) -> Graph:
    """An attention and an MLP like the first ones there are, after a layer."""
    shape = graph.shapes[move.layer]
    attention = next((layer for layer in graph.layers if layer.op == ATTENTION), None)
    mlp = next((layer for layer in graph.layers if layer.op == MLP), None)
    size = attention.kernel if attention else max(1, shape[-1] // move.value)
    # What reads a text is given no later tokens, with or without other attentions.
    causal = attention.extra if attention else int(len(graph.shape) == 1)
    hidden = mlp.width if mlp else _RATIO * shape[-1]
    added = [
        Layer(ATTENTION, move.layer, width=move.value, kernel=size, extra=causal),
        Layer(MLP, len(graph.layers), width=hidden),
    ]
    return insert(graph, move.layer, added, [shape, shape])


def preserving(graph: Graph, move: Move) -> bool:
    layer = graph.layers[move.layer]
    if move.kind == "context":
        return move.value >= layer.extra
    return move.kind == "block" or (move.kind != "patch" and move.value >= layer.width)


def draws(graph: Graph, rng: Random, limits: Limits) -> list[Draw]:
    layers = graph.layers
    found = {op: [i for i, layer in enumerate(layers) if layer.op == op] for op in (TOKENS, PATCHES, ATTENTION, MLP)}
    first = [*found[TOKENS], *found[PATCHES]]

    def block() -> Move:
        at = rng.choice([*first, *found[MLP]])
        heads = rng.choice([layers[i].width for i in found[ATTENTION]] or [1])
        return Move("block", at, heads)

    def heads() -> Move:
        at = rng.choice(found[ATTENTION])
        return Move("heads", at, layers[at].width + max(1, round(layers[at].width * rng.choice((0.25, 0.5, 1.0)))))

    def hidden() -> Move | None:
        at = rng.choice(found[MLP])
        width = layers[at].width
        value = width + max(1, round(width * rng.choice((0.25, 0.5, 1.0))))
        return Move("hidden", at, value) if value <= MAX_WIDTH else None

    def channels() -> Move | None:
        at = rng.choice(first)
        return Move("channels", at, 2 * layers[at].width) if 2 * layers[at].width <= MAX_WIDTH else None

    def context() -> Move | None:
        at = rng.choice(found[TOKENS])
        value = 2 * layers[at].extra
        return Move("context", at, value) if value <= limits.tokens else None

    def patch() -> Move | None:
        at = rng.choice(found[PATCHES])
        height, width, _ = graph.shapes[layers[at].a]
        finer = [
            side
            for side in range(1, layers[at].kernel)
            if not height % side and not width % side and (height // side) * (width // side) <= limits.tokens
        ]
        return Move("patch", at, finer[-1]) if finer else None

    drawn: list[tuple[Draw, object]] = [
        (block, first),
        (heads, found[ATTENTION]),
        (hidden, found[MLP]),
        (channels, first),
        (context, found[TOKENS]),
        (patch, found[PATCHES]),
    ]
    return [draw for draw, somewhere in drawn if somewhere]


SPACE = Space(KINDS, apply, preserving, draws)
