"""Which layers share a width, so that one cannot be widened without the others."""

from __future__ import annotations

from collections.abc import Callable

from trainmark.automl.graph.graph import ADD, CONCAT, CONV, DENSE, FLATTEN, NONE, Graph


def groups(graph: Graph) -> dict[int, frozenset[int]]:
    """For each convolution and dense layer whose width may change, those whose width must change with it.

    Every layer belongs to a group of one width, and adding ties groups together. A concatenation or a flattening makes
    a group that follows from others: where an addition ties it to something, it and all that it follows from stay."""
    count = len(graph.layers)
    root, follows, adds = _tie(graph)
    tied = {root(index) for index in adds}
    fixed = {root(count), root(graph.output)} | {root(index) for index in follows if root(index) in tied}
    for index in reversed(follows):
        if root(index) in fixed:
            fixed.update(map(root, follows[index]))
    found: dict[int, list[int]] = {}
    for index, layer in enumerate(graph.layers):
        if layer.op in (CONV, DENSE) and root(index) not in fixed:
            found.setdefault(root(index), []).append(index)
    return {index: members for members in map(frozenset, found.values()) for index in members}


def _tie(graph: Graph) -> tuple[Callable[[int], int], dict[int, list[int]], list[int]]:
    """A function that gives each layer's group (the input is the last), the groups that follow from others, in the
    order of computation, and the additions."""
    count = len(graph.layers)
    parent = list(range(count + 1))

    def root(index: int) -> int:
        index %= count + 1
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    follows: dict[int, list[int]] = {}
    adds = []
    for index in graph.order:
        layer = graph.layers[index]
        if layer.op in (CONCAT, FLATTEN):
            follows[index] = [layer.a] if layer.b == NONE else [layer.a, layer.b]
        elif layer.op not in (CONV, DENSE):
            parent[index] = root(layer.a)
            if layer.op == ADD:
                parent[root(layer.b)] = parent[index]
                adds.append(index)
    return root, follows, adds
