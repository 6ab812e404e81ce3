"""Random networks for properties, and AIPerf's edit distance written down anew as the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from trainmark.automl.graph.graph import (
    ADD,
    BN,
    CONCAT,
    CONV,
    DENSE,
    DROPOUT,
    FLATTEN,
    GAP,
    INPUT,
    MAXPOOL,
    NONE,
    RELU,
    SOFTMAX,
    Graph,
    check,
)
from trainmark.automl.graph.start_networks import Builder

MIXTURE = ("conv", "conv", "bn", "relu", "relu", "pool", "add", "concat", "twins", "block", "dropout")


@st.composite
def networks(draw: st.DrawFn, most: int = 12) -> Graph:
    """Any mixture of layers that makes a network: branches, twins, additions and concatenations of whatever fits."""
    net = Builder()
    shape = (draw(st.integers(5, 9)), draw(st.integers(5, 9)), draw(st.integers(1, 3)))
    x = INPUT
    for _ in range(draw(st.integers(1, most))):
        shapes = Graph(shape, tuple(net.layers)).shapes if net.layers else (shape,)
        same = [end for end in range(-1, len(net.layers)) if shapes[end] == shapes[x]]
        near = [end for end in range(-1, len(net.layers)) if shapes[end][:2] == shapes[x][:2]]
        kind = draw(st.sampled_from(MIXTURE))
        if kind == "conv":
            x = net.conv(x, draw(st.integers(1, 4)), draw(st.sampled_from((1, 2, 3))), draw(st.integers(1, 2)))
        elif kind == "block":
            x = net.conv_bn_relu(x, draw(st.integers(1, 4)), draw(st.sampled_from((1, 3))))
        elif kind == "twins":
            width = draw(st.integers(1, 3))
            x = net.add(ADD, net.conv(x, width, 3), net.conv(x, width, 3))
        elif kind == "pool":
            if min(shapes[x][:2]) >= 2:
                x = net.add(MAXPOOL, x, kernel=draw(st.sampled_from((2, 3))), stride=draw(st.integers(1, 2)))
        elif kind in ("add", "concat"):
            op, ends = (ADD, same) if kind == "add" else (CONCAT, near)
            other = draw(st.sampled_from(ends))
            x = net.add(op, *draw(st.permutations((x, other))))
        else:
            op = {"bn": BN, "relu": RELU, "dropout": DROPOUT}[kind]
            x = net.add(op, x, extra=draw(st.integers(0, 500_000)) if op == DROPOUT else 0)
    x = net.add(draw(st.sampled_from((GAP, FLATTEN))), x)
    for _ in range(draw(st.integers(0, 2))):
        x = net.add(RELU, net.add(DENSE, x, width=draw(st.integers(1, 4))))
        if draw(st.booleans()):
            x = net.add(BN, x)
    x = net.add(DENSE, x, width=draw(st.integers(2, 4)))
    if draw(st.booleans()):
        net.add(SOFTMAX, x)
    return check(Graph(shape, tuple(net.layers)), "random")


def renamed(graph: Graph, order: list[int], swaps: list[bool]) -> Graph:
    """The same graph: layer i becomes layer order[i], and sides of additions are swapped."""
    names = {INPUT: INPUT, NONE: NONE, **dict(enumerate(order))}
    layers = [None] * len(order)
    for index, layer in enumerate(graph.layers):
        a, b = names[layer.a], names[layer.b]
        if layer.op == ADD and swaps[index]:
            a, b = b, a
        layers[order[index]] = layer._replace(a=a, b=b)  # type: ignore[call-overload]
    return Graph(graph.shape, tuple(layers))  # type: ignore[arg-type]


def changed(draw: st.DataObject, graph: Graph) -> Graph:
    """The graph, or one that differs in a single setting of a single layer or in one end of a join."""
    layers = list(graph.layers)
    at = draw.draw(st.integers(0, len(layers) - 1))
    layer = layers[at]
    if layer.op in (CONV, DENSE):
        field = draw.draw(st.sampled_from(("width", "kernel") if layer.op == CONV else ("width",)))
        layers[at] = layer._replace(**{field: getattr(layer, field) + draw.draw(st.integers(0, 2))})
    elif layer.op == DROPOUT:
        layers[at] = layer._replace(extra=draw.draw(st.sampled_from((layer.extra, 123_456))))
    elif layer.op in (ADD, CONCAT):
        layers[at] = layer._replace(a=layer.b, b=draw.draw(st.sampled_from((layer.a, layer.b))))
    return Graph(graph.shape, tuple(layers))


def edit_distance(first: dict[str, Any], second: dict[str, Any]) -> float:
    """Of two graphs in AIPerf's JSON: a sequence distance of main chains plus a matching of skips."""
    layers_a, skips_a = _describe(first)
    layers_b, skips_b = _describe(second)
    table = np.zeros((len(layers_a) + 1, len(layers_b) + 1))
    table[:, 0], table[0, :] = range(len(layers_a) + 1), range(len(layers_b) + 1)
    for i, a in enumerate(layers_a, 1):
        for j, b in enumerate(layers_b, 1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + _unlike(a, b))
    costs = np.array([[_skip_unlike(a, b) for b in skips_b] for a in skips_a]).reshape(len(skips_a), len(skips_b))
    return float(table[-1, -1] + costs[linear_sum_assignment(costs)].sum() + abs(len(skips_a) - len(skips_b)))


def _unlike(a: list[Any], b: list[Any]) -> float:
    if a[0] != b[0]:
        return 1.0
    settings = {"StubConv2d": (4, 5, 6), "StubPooling2d": (3, 4, 5)}.get(a[0], ())
    shares = [abs(a[at] - b[at]) / max(a[at], b[at]) if max(a[at], b[at]) else 0.0 for at in settings]
    return sum(shares) / len(shares) if shares else 0.0


def _skip_unlike(a: tuple[int, int, str], b: tuple[int, int, str]) -> float:
    if a[2] != b[2]:
        return 1.0
    long_a, long_b = a[1] - a[0], b[1] - b[0]
    return (abs(a[0] - b[0]) + abs(long_a - long_b)) / (max(a[0], b[0]) + max(long_a, long_b))


def _describe(graph: dict[str, Any]) -> tuple[list[list[Any]], list[tuple[int, int, str]]]:
    edges = {int(tensor): ends for tensor, ends in graph["adj_list"].items()}
    layers = dict(graph["layer_list"])
    far, back = dict.fromkeys(edges, 0), {tensor: tensor for tensor in edges}
    for _ in range(len(edges) - 1):  # as many rounds as AIPerf makes
        for tensor in sorted(edges):
            for end, _layer in edges[tensor]:
                if far[tensor] + 1 > far[end]:
                    far[end], back[end] = far[tensor] + 1, tensor
    chain = [max(far, key=lambda tensor: (far[tensor], -tensor))]
    while back[chain[0]] != chain[0]:
        chain.insert(0, back[chain[0]])
    seen = [layers[layer] for tensor in chain for end, layer in edges[tensor] if end in chain]
    skips = []
    for tensor in chain:
        for end, layer in edges[tensor]:
            here, kind, direct = tensor, "", end in chain
            if direct and chain.index(end) == chain.index(tensor) + 1:
                continue
            if direct:
                skips.append((chain.index(tensor), chain.index(end), _join(layers[layer])))
                continue
            while not (here in chain and end in chain):
                kind = _join(layers[layer]) or kind
                here = end
                if not edges[here]:
                    break
                end, layer = edges[here][0]
            skips.append((chain.index(tensor), chain.index(here), kind))
    return seen, skips


def _join(layer: list[Any]) -> str:
    return layer[0] if layer[0] in ("StubAdd", "StubConcatenate") else ""
