"""When two graphs are the same: by their structure alone, or as AIPerf sees it."""

from __future__ import annotations

import hashlib

from trainmark.automl.graph.graph import ADD, CONCAT, CONV, INPUT, MAXPOOL, NONE, Graph, Layer
from trainmark.errors import UserError

# Layers that are coloured, all in all, before a graph of interchangeable parts is refused. Networks need a few hundred.
MAX_WORK = 250_000


def canonical_hash(graph: Graph) -> str:
    """Equal for two graphs if and only if one is the other with its layers renamed. An addition has no first side."""
    return hashlib.sha256(repr((graph.shape, canonical(graph))).encode()).hexdigest()


def canonical(graph: Graph) -> tuple[Layer, ...]:
    """The layers, numbered in a way that does not depend on how they were numbered before.

    Walking back from the output names every layer by the way it is met; only at an addition is there a choice. It is
    made by colours, which depend on the structure alone. Where both sides have one colour, each layer of that colour
    gets another in turn, and the smallest outcome is taken. Layers whose first outcomes are equal are images of each
    other, so that one of them is enough."""
    work = 0

    def refine(colours: list[int], chosen: int | None) -> list[int]:
        nonlocal work
        work += len(colours)
        if work > MAX_WORK:
            raise UserError("the graph has too many interchangeable parts to be told from others")
        return _refine(graph, colours, chosen)

    def settle(colours: list[int]) -> tuple[Layer, ...]:
        alike = _alike(graph, colours)
        if not alike:
            return _numbered(graph, colours)[0]
        branches: dict[tuple[tuple[Layer, ...], tuple[int, ...]], list[int]] = {}
        for member in alike:
            branch = refine(colours, member)
            layers, order = first_leaf(branch)
            branches.setdefault((layers, tuple(colours[index] for index in order)), branch)
        return min(map(settle, branches.values()))

    def first_leaf(colours: list[int]) -> tuple[tuple[Layer, ...], list[int]]:
        while alike := _alike(graph, colours):
            colours = refine(colours, alike[0])
        return _numbered(graph, colours)

    return settle(refine([0] * len(graph.layers), None))


def _refine(graph: Graph, colours: list[int], chosen: int | None) -> list[int]:
    """Colours that also depend on what is before and after each layer; `chosen` gets one of its own."""
    if chosen is not None:
        colours = list(colours)
        colours[chosen] = hash((colours[chosen], 1))
    count = len(set(colours))
    while True:
        colours = _backward(graph, _forward(graph, colours))
        if len(set(colours)) == count:
            return colours
        count = len(set(colours))


def _forward(graph: Graph, colours: list[int]) -> list[int]:
    layers = graph.layers
    seen = [0] * (len(layers) + 2)  # the last two: no second input, and the graph's input
    seen[INPUT], seen[NONE] = 1, 2
    for index in graph.order:
        op, a, b, *settings = layers[index]
        left, right = seen[a], seen[b]
        if op == ADD and left > right:
            left, right = right, left
        seen[index] = hash((colours[index], op, left, right, *settings, a == b))
    return seen[:-2]


def _backward(graph: Graph, colours: list[int]) -> list[int]:
    seen = list(colours)
    for index in reversed(graph.order):
        readers = [
            (seen[reader], graph.layers[reader].op != ADD and graph.layers[reader].b == index)
            for reader in graph.consumers[index]
        ]
        seen[index] = hash((colours[index], *sorted(readers)))
    return seen


def _alike(graph: Graph, colours: list[int]) -> list[int]:
    """All layers of one colour, if an addition has two of them as its sides; of several colours the smallest."""
    tied = [
        colours[layer.a]
        for layer in graph.layers
        if layer.op == ADD
        and layer.a != layer.b
        and min(layer.a, layer.b) >= 0
        and colours[layer.a] == colours[layer.b]
    ]
    return [index for index, colour in enumerate(colours) if colour == min(tied)] if tied else []


def _numbered(graph: Graph, colours: list[int]) -> tuple[tuple[Layer, ...], list[int]]:
    """The layers as they are met, and which they were."""
    layers = graph.layers
    numbers = {INPUT: INPUT, NONE: NONE}
    found: list[Layer] = []
    order: list[int] = []
    stack = [graph.output]
    while stack:
        index = stack[-1]
        layer = layers[index]
        ends = _ends(layer, colours)
        waiting = [end for end in reversed(ends) if end not in numbers]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if index not in numbers:
            numbers[index] = len(found)
            found.append(layer._replace(a=numbers[ends[0]], b=numbers[ends[1]]))
            order.append(index)
    return tuple(found), order


def _ends(layer: Layer, colours: list[int]) -> tuple[int, int]:
    """What a layer reads; for an addition in the order of colours, the graph's input first."""
    if layer.op != ADD or layer.a == INPUT:
        return layer.a, layer.b
    swap = layer.b == INPUT or colours[layer.b] < colours[layer.a]
    return (layer.b, layer.a) if swap else (layer.a, layer.b)


def aiperf_key(graph: Graph) -> str:
    """Equal for two graphs if and only if AIPerf's edit distance between them is below 1e-5."""
    chain, skips = aiperf_descriptor(graph)
    return hashlib.sha256(repr((chain, sorted(skips))).encode()).hexdigest()


def aiperf_descriptor(graph: Graph) -> tuple[list[tuple[int, ...]], list[tuple[int, int, str]]]:
    """What AIPerf compares: layers along the longest chain of tensors, and the ways that leave it (from, to, kind). Of
    a dense layer, a batch norm or a dropout it sees only that it is there."""
    edges = _aiperf_edges(graph)
    chain = _main_chain(edges)
    place = {tensor: index for index, tensor in enumerate(chain)}
    seen = [_seen(graph.layers[layer]) for tensor in chain for end, layer in edges[tensor] if end in place]
    skips = []
    for tensor in chain:
        for end, layer in edges[tensor]:
            if end not in place:
                skips.append(_detour(graph, edges, place, tensor, end, layer))
            elif place[end] != place[tensor] + 1:
                skips.append((place[tensor], place[end], _joint(graph.layers[layer])))
    return seen, skips


def _aiperf_edges(graph: Graph) -> list[list[tuple[int, int]]]:
    """For each tensor the (tensor, layer) that follow; the input is tensor 0 and layer n makes tensor n + 1."""
    edges: list[list[tuple[int, int]]] = [[] for _ in range(len(graph.layers) + 1)]
    for index, layer in enumerate(graph.layers):
        edges[layer.a + 1].append((index + 1, index))
        if layer.b != NONE:
            edges[layer.b + 1].append((index + 1, index))
    return edges


def _main_chain(edges: list[list[tuple[int, int]]]) -> list[int]:
    """The longest chain. Of equally long ones, that which AIPerf's rounds over all tensors in turn find first."""
    length = [0] * len(edges)
    before = list(range(len(edges)))
    changed = True
    while changed:
        changed = False
        for tensor, following in enumerate(edges):
            reach = length[tensor] + 1
            for end, _ in following:
                if reach > length[end]:
                    length[end], before[end], changed = reach, tensor, True
    tensor = length.index(max(length))
    chain = [tensor]
    while before[tensor] != tensor:
        tensor = before[tensor]
        chain.append(tensor)
    return chain[::-1]


def _detour(
    graph: Graph, edges: list[list[tuple[int, int]]], place: dict[int, int], tensor: int, end: int, layer: int
) -> tuple[int, int, str]:
    """A way that leaves the chain, by its first branch, to where it goes along the chain again."""
    begin, kind = tensor, ""
    while tensor not in place or end not in place:
        kind = _joint(graph.layers[layer]) or kind
        tensor = end
        if not edges[tensor]:
            break
        end, layer = edges[tensor][0]
    return place[begin], place[tensor], kind


def _joint(layer: Layer) -> str:
    return {ADD: "add", CONCAT: "concat"}.get(layer.op, "")


def _seen(layer: Layer) -> tuple[int, ...]:
    if layer.op == CONV:
        return layer.op, layer.width, layer.kernel, layer.stride
    return (layer.op, layer.extra, layer.kernel, layer.stride) if layer.op == MAXPOOL else (layer.op,)
