"""Moves of convolutional networks: morphisms that only grow a network, so that weights can be inherited (`weights.py`).

New layers are appended; those of the parent keep their numbers, and what is known of the parent (order, shapes, size)
is handed on instead of being worked out again.
"""

from __future__ import annotations

from random import Random

from trainmark.automl.graph.graph import ADD, BN, CONCAT, CONV, DENSE, MAX_WIDTH, RELU, Graph, Layer, Shape, layer_size
from trainmark.automl.graph.space import Draw, Impossible, Limits, Move, Space, insert, replaced

KINDS = ("deeper", "wider", "kernel", "add", "concat")


def apply(graph: Graph, move: Move) -> Graph:
    if move.kind == "deeper":
        return _deeper(graph, move)
    if move.kind == "wider":
        return _wider(graph, move)
    if move.kind == "kernel":
        return _kernel(graph, move)
    return _skip(graph, move)


def preserving(graph: Graph, move: Move) -> bool:
    """Whether weights can be inherited so that the child computes what its parent does: not where it shrinks."""
    layer = graph.layers[move.layer]
    if move.kind == "wider":
        return move.value >= layer.width
    return move.kind != "kernel" or (move.value >= layer.kernel and (move.value - layer.kernel) % 2 == 0)


def _deeper(graph: Graph, move: Move) -> Graph:
    at, shape = move.layer, graph.shapes[move.layer]
    if graph.layers[at].op != RELU or at == graph.output:
        raise Impossible(f"layer {at} is no ReLU inside the network")
    flat = len(shape) == 1
    if flat != (move.value == 0):
        raise Impossible(f"layer {at} gives {shape}: a kernel of {move.value} does not fit")
    new = len(graph.layers)
    if flat:
        added = [Layer(DENSE, at, width=shape[-1]), Layer(RELU, new)]
    else:
        added = [Layer(CONV, at, width=shape[-1], kernel=move.value, stride=1), Layer(BN, new), Layer(RELU, new + 1)]
    return insert(graph, at, added, [shape] * len(added))


def _kernel(graph: Graph, move: Move) -> Graph:
    layer = graph.layers[move.layer]
    if layer.op != CONV or move.value < 1 or (move.value - layer.kernel) % 2:
        raise Impossible(f"layer {move.layer} is no convolution whose kernel can become {move.value}")
    child = replaced(graph, [move.layer], kernel=move.value)
    child.__dict__.update(order=graph.order, consumers=graph.consumers, shapes=graph.shapes)
    came = graph.shapes[layer.a]
    more = layer_size(child.layers[move.layer], came) - layer_size(layer, came)
    child.__dict__["size"] = graph.size + more
    return child


def _wider(graph: Graph, move: Move) -> Graph:
    group = graph.width_groups.get(move.layer)
    if not group:
        raise Impossible(
            f"the width of layer {move.layer} cannot change without changing what the network takes or gives"
        )
    if not 1 <= move.value <= MAX_WIDTH:
        raise Impossible(f"width {move.value} is out of bounds")
    child = replaced(graph, group, width=move.value)
    child.__dict__.update(order=graph.order, consumers=graph.consumers)
    return child


def _skip(graph: Graph, move: Move) -> Graph:
    end, begin = move.layer, move.value
    if not 0 <= begin < len(graph.layers) or not _skippable(graph, begin, end):
        raise Impossible(f"no skip from layer {begin} to layer {end}")
    source, target = graph.shapes[begin], graph.shapes[end]
    stride = skip_stride(source, target)
    if not stride:
        raise Impossible(f"no stride brings {source} of layer {begin} to {target} of layer {end}")
    new = len(graph.layers)
    if move.kind == "add":
        added = [
            Layer(CONV, begin, width=target[-1], kernel=1, stride=stride),
            Layer(BN, new),
            Layer(ADD, end, new + 1),
        ]
        return insert(graph, end, added, [target] * 3)
    # Where the maps differ, a convolution of its own brings the start to the size of the end.
    side = (*target[:2], source[-1])
    added, shapes = [], []
    if stride > 1:
        added, shapes = [Layer(CONV, begin, width=source[-1], kernel=1, stride=stride), Layer(BN, new)], [side, side]
    joined = new + len(added)
    added += [
        Layer(CONCAT, end, joined - 1 if stride > 1 else begin),
        Layer(CONV, joined, width=target[-1], kernel=1, stride=1),
    ]
    return insert(graph, end, added, [*shapes, (*target[:2], target[-1] + source[-1]), target])


def _skippable(graph: Graph, begin: int, end: int) -> bool:
    """From a ReLU to a batch norm that is worked out after it, both of maps."""
    layers, shapes, place = graph.layers, graph.shapes, graph.places
    return (
        layers[begin].op == RELU
        and layers[end].op == BN
        and end != graph.output
        and len(shapes[begin]) == len(shapes[end]) == 3
        and place[begin] < place[end]
    )


def skip_stride(source: Shape, target: Shape) -> int:
    """The smallest stride of a 1×1 convolution that makes `target`'s map of `source`'s; 0 if there is none."""
    if source[:2] == target[:2]:
        return 1
    for stride in range(2, source[0] + 1):
        high = (source[0] - 1) // stride + 1
        if high == target[0] and (source[1] - 1) // stride + 1 == target[1]:
            return stride
        if high < target[0]:
            break
    return 0


def draws(graph: Graph, rng: Random, limits: Limits) -> list[Draw]:
    """For each kind that the graph allows, how a move of it is drawn."""
    layers, shapes = graph.layers, graph.shapes
    relus = [i for i, layer in enumerate(layers) if layer.op == RELU and i != graph.output]
    convs = [i for i, layer in enumerate(layers) if layer.op == CONV and layer.kernel + 2 <= limits.kernel]
    wide = sorted(graph.width_groups)
    ends = [i for i, layer in enumerate(layers) if layer.op == BN and len(shapes[i]) == 3 and i != graph.output]
    kernels = [kernel for kernel in (1, 3, 5) if kernel <= limits.kernel]

    def deeper() -> Move:
        at = rng.choice(relus)
        return Move("deeper", at, rng.choice(kernels) if len(shapes[at]) == 3 else 0)

    def wider() -> Move | None:
        at = rng.choice(wide)
        width = layers[at].width
        value = width + max(1, round(width * rng.choice((0.25, 0.5, 1.0))))
        return Move("wider", at, value) if value <= MAX_WIDTH else None

    def kernel() -> Move:
        at = rng.choice(convs)
        return Move("kernel", at, layers[at].kernel + 2)

    def skip() -> Move | None:
        end, begin = rng.choice(ends), rng.choice(relus)
        fits = _skippable(graph, begin, end) and skip_stride(shapes[begin], shapes[end])
        return Move(rng.choice(("add", "concat")), end, begin) if fits else None

    drawn: list[tuple[Draw, object]] = [
        (deeper, relus),
        (wider, wide),
        (kernel, convs),
        (skip, ends and relus),
    ]
    return [make for make, somewhere in drawn if somewhere]


SPACE = Space(KINDS, apply, preserving, draws)
