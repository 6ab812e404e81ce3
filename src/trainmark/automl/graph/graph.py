"""The architecture graph: what a network is, without weights. Immutable, and small enough to make a hundred at a time.

A layer is a tuple of seven integers and is named by its place in `Graph.layers`. A morphism appends layers and never
renumbers any, so weights keep their names and children share the tuples of their parent. The order of the list is
therefore not the order of computation: that is `Graph.order`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from trainmark.errors import UserError

CONV, BN, RELU, MAXPOOL, GAP, DENSE, DROPOUT, ADD, CONCAT, FLATTEN, SOFTMAX = range(11)
# Of transformers. Attention and MLP have their norm before them and are added to what they read.
TOKENS, PATCHES, ATTENTION, MLP, NORM, MEAN = range(11, 17)
OPS = (
    *("conv", "batch_norm", "relu", "max_pool", "global_avg_pool", "dense"),
    *("dropout", "add", "concat", "flatten", "softmax"),
    *("tokens", "patches", "attention", "mlp", "layer_norm", "mean"),
)

INPUT = -1  # as an input of a layer: the graph's own
NONE = -2  # as the second input of a layer: it has one only

# Beyond these a file is refused. Two widths this close are still told apart by AIPerf's edit distance.
MAX_LAYERS = 4096
MAX_WIDTH = 2**15
MAX_KERNEL = 63
MAX_SIDE = 4096
MAX_SIZE = 2**31

# (height, width, channels), (tokens, channels), or (features,); a text is (tokens,)
Shape = tuple[int, ...]


# Kinds that have weights.
_WEIGHED = (CONV, BN, DENSE, TOKENS, PATCHES, ATTENTION, MLP, NORM)


class Layer(NamedTuple):
    """`width` is filters of a convolution or units of a dense layer; `extra` is a pool's padding, or the rate of a
    dropout in millionths. What a kind has no use for is 0. A convolution is padded by half its kernel.

    | of transformers | width | kernel | extra |
    |---|---|---|---|
    | tokens | channels | kinds of tokens | tokens of a text |
    | patches | channels | side of a patch | |
    | attention | heads | channels of a head | 1: no token sees a later one |
    | mlp | hidden units | | |
    """

    op: int
    a: int
    b: int = NONE
    width: int = 0
    kernel: int = 0
    stride: int = 0
    extra: int = 0


class Graph(msgspec.Struct, frozen=True, dict=True):
    """An input shape and layers. What follows from these is worked out once, when first asked for."""

    shape: Shape
    layers: tuple[Layer, ...]

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, those that read it; the last entry is who reads the input."""
        found: list[list[int]] = [[] for _ in range(len(self.layers) + 1)]
        for index, layer in enumerate(self.layers):
            found[layer.a].append(index)
            if layer.b != NONE and layer.b != layer.a:
                found[layer.b].append(index)
        return tuple(map(tuple, found))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """All layers, each after those that it reads. Shorter than `layers` if there is a cycle."""
        waits = [(layer[1] >= 0) + (layer[2] >= 0 and layer[2] != layer[1]) for layer in self.layers]
        ready = [index for index in range(len(waits) - 1, -1, -1) if not waits[index]]
        readers, order = self.consumers, []
        while ready:
            index = ready.pop()
            order.append(index)
            for reader in reversed(readers[index]):
                waits[reader] -= 1
                if not waits[reader]:
                    ready.append(reader)
        return tuple(order)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """For each layer, its place in the order."""
        found = [0] * len(self.layers)
        for place, index in enumerate(self.order):
            found[index] = place
        return tuple(found)

    @cached_property
    def output(self) -> int:
        """The layer that nobody reads."""
        return self.order[-1]

    @cached_property
    def shapes(self) -> tuple[Shape, ...]:
        """The shape of each layer's output; the last entry is the input's."""
        return infer(self)

    @cached_property
    def size(self) -> int:
        """Numbers that a checkpoint holds. As AIPerf counts them: four per channel for a batch norm."""
        shapes = self.shapes
        return sum(layer_size(layer, shapes[layer[1]]) for layer in self.layers if layer[0] in _WEIGHED)

    @cached_property
    def depth(self) -> int:
        """Layers on the longest way from input to output."""
        depths, layers = [0] * (len(self.layers) + 2), self.layers
        for index in self.order:
            _, a, b, *_ = layers[index]
            # The input (-1) and a missing one (-2) are the last two entries, both 0.
            depths[index] = 1 + (depths[a] if depths[a] > depths[b] else depths[b])
        return depths[self.output]

    @cached_property
    def width_groups(self) -> dict[int, frozenset[int]]:
        """For each convolution and dense layer whose width may change, those whose width must change with it."""
        return _width_groups(self)

    @property
    def classes(self) -> int:
        return self.shapes[self.output][-1]


def _width_groups(graph: Graph) -> dict[int, frozenset[int]]:
    """Every layer belongs to a group of one width, and adding ties groups together. A concatenation or a flattening
    makes a group that follows from others: where an addition ties it to something, it and all those stay. So does
    what a part of a transformer reads."""
    count = len(graph.layers)
    root, follows, adds = _tie(graph)
    tied = {root(index) for index in adds}
    fixed = {root(count), root(graph.output)} | {root(index) for index in follows if root(index) in tied}
    fixed |= {root(layer.a) for layer in graph.layers if layer.op in (TOKENS, PATCHES, ATTENTION, MLP, NORM)}
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


def layer_size(layer: Layer, came: Shape) -> int:
    """Numbers of a layer that reads something of this shape."""
    op, channels, width = layer.op, came[-1], layer.width
    if op == CONV:
        return (channels * layer.kernel**2 + 1) * width
    if op == DENSE:
        return (channels + 1) * width
    if op == BN:
        return 4 * channels
    if op == TOKENS:
        return (layer.kernel + layer.extra) * width
    if op == PATCHES:
        return (channels * layer.kernel**2 + 1 + patches(layer, came)) * width
    if op == ATTENTION:
        inner = width * layer.kernel
        return 2 * channels + 3 * inner * (channels + 1) + channels * (inner + 1)
    if op == MLP:
        return 2 * channels + width * (channels + 1) + channels * (width + 1)
    return 2 * channels if op == NORM else 0


def patches(layer: Layer, came: Shape) -> int:
    """How many an image is cut into."""
    return (came[0] // layer.kernel) * (came[1] // layer.kernel)


def pool_padding(layer: Layer) -> int:
    """AIPerf writes 0 and lets its frameworks pad; this is what makes the map shrink by the stride."""
    return layer.extra or (layer.kernel - 1) // 2


def infer(graph: Graph, halving: bool = False) -> tuple[Shape, ...]:
    """Shapes of all outputs. With `halving` as AIPerf writes them down: a pool divides by its stride, rounded down, and
    whatever is joined has the shape of its first part."""
    shapes: list[Shape] = [()] * len(graph.layers)
    shapes.append(graph.shape)
    for index in graph.order:
        layer = graph.layers[index]
        shapes[index] = _shape(index, layer, shapes, halving)
    return tuple(shapes)


def _shape(index: int, layer: Layer, shapes: list[Shape], halving: bool) -> Shape:
    op, came = layer.op, shapes[layer.a]
    if op in (BN, RELU, DROPOUT):
        return came
    if op == CONV:
        _need(index, op, len(came) == 3, came)
        pad = layer.kernel // 2
        return (*_slide(index, op, came, layer.kernel, layer.stride, pad), layer.width)
    if op == ADD:
        _need(index, op, halving or came == shapes[layer.b], came, shapes[layer.b])
        return came
    if op == CONCAT:
        other = shapes[layer.b]
        _need(index, op, halving or (came[:-1] == other[:-1] and len(came) == len(other)), came, other)
        return (*came[:-1], came[-1] + other[-1])
    if op == MAXPOOL:
        _need(index, op, len(came) == 3, came)
        if halving:
            return (max(came[0] // layer.stride, 1), max(came[1] // layer.stride, 1), came[2])
        return (*_slide(index, op, came, layer.kernel, layer.stride, pool_padding(layer)), came[2])
    if op == GAP:
        _need(index, op, len(came) == 3, came)
        return came[2:]
    if op == FLATTEN:
        return (came[0] * came[1] * came[2],) if len(came) == 3 else came
    if op in (TOKENS, PATCHES, ATTENTION, MLP, NORM, MEAN):
        return _token_shape(index, layer, came)
    _need(index, op, len(came) == 1 or (op == DENSE and len(came) == 2), came)
    return (*came[:-1], layer.width) if op == DENSE else came


def _token_shape(index: int, layer: Layer, came: Shape) -> Shape:
    op = layer.op
    if op == TOKENS:
        _need(index, op, layer.a == INPUT and came == (layer.extra,), came)
        return (layer.extra, layer.width)
    if op == PATCHES:
        _need(index, op, len(came) == 3 and not came[0] % layer.kernel and not came[1] % layer.kernel, came)
        return (patches(layer, came), layer.width)
    _need(index, op, len(came) == 2, came)
    return came[1:] if op == MEAN else came


def _slide(index: int, op: int, came: Shape, kernel: int, stride: int, pad: int) -> tuple[int, int]:
    high, wide = (came[0] + 2 * pad - kernel) // stride + 1, (came[1] + 2 * pad - kernel) // stride + 1
    _need(index, op, high > 0 and wide > 0, came)
    return high, wide


def _need(index: int, op: int, fits: bool, *came: Shape) -> None:
    if not fits:
        found = " and ".join("×".join(map(str, shape)) for shape in came)
        raise UserError(f"layer {index} ({OPS[op]}) cannot take {found}; {_TAKES[op]}")


_TAKES = {
    CONV: "it takes a map (height × width × channels) at least as large as its kernel leaves",
    MAXPOOL: "it takes a map at least as large as its kernel",
    GAP: "it takes a map (height × width × channels)",
    DENSE: "it takes features: put a `flatten` or a `global_avg_pool` before it",
    SOFTMAX: "it takes features",
    ADD: "it takes two of one shape",
    CONCAT: "it takes two maps of one height and width",
    TOKENS: "it takes the network's input, a text of as many tokens as its context",
    PATCHES: "it takes a map whose height and width are multiples of its patch",
    **dict.fromkeys((ATTENTION, MLP, NORM, MEAN), "it takes tokens: put `tokens` or `patches` before it"),
}


def check(graph: Graph, where: str) -> Graph:
    """The graph, if it is a network: every layer in reach, one output, no cycle, shapes that fit, within the limits."""
    try:
        _check_layers(graph)
        _check_paths(graph)
        if graph.size > MAX_SIZE:
            raise UserError(f"it has {graph.size:,} parameters; at most {MAX_SIZE:,} are allowed")
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return graph


def _check_layers(graph: Graph) -> None:
    if len(graph.shape) not in (1, 3) or not all(1 <= side <= MAX_SIDE for side in graph.shape):
        raise UserError(
            f"input shape {list(graph.shape)}: expected [height, width, channels] or [features], each 1 to {MAX_SIDE}"
        )
    count = len(graph.layers)
    if not 1 <= count <= MAX_LAYERS:
        raise UserError(f"it has {count} layers; 1 to {MAX_LAYERS} are allowed")
    for index, layer in enumerate(graph.layers):
        place = f"layer {index} ({OPS[layer.op]})"
        two = layer.op in (ADD, CONCAT)
        for end in (layer.a, layer.b) if two else (layer.a,):
            if not INPUT <= end < count:
                raise UserError(f"{place}: reads layer {end}, which does not exist; there are 0 to {count - 1}")
        if not two and layer.b != NONE:
            raise UserError(f"{place}: has two inputs; only `add` and `concat` do")
        if layer.op in (CONV, DENSE, TOKENS, PATCHES, ATTENTION, MLP):
            _within(place, "width", layer.width, 1, MAX_WIDTH)
        if layer.op in (TOKENS, PATCHES, ATTENTION):
            _within(place, "kernel", layer.kernel, 1, MAX_WIDTH)
        if layer.op == ATTENTION:
            _within(place, "causal", layer.extra, 0, 1)
        if layer.op in (CONV, MAXPOOL):
            _within(place, "kernel", layer.kernel, 1, MAX_KERNEL)
            _within(place, "stride", layer.stride, 1, MAX_KERNEL)
        if layer.op == MAXPOOL:
            _within(place, "padding", layer.extra, 0, layer.kernel // 2)
        if layer.op == DROPOUT:
            _within(place, "rate (in millionths)", layer.extra, 0, 999_999)


def _within(place: str, name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise UserError(f"{place}: {name} is {value}; {low} to {high} are allowed")


def _check_paths(graph: Graph) -> None:
    stuck = sorted(set(range(len(graph.layers))) - set(graph.order))
    if stuck:
        raise UserError(f"layers {_some(stuck)} wait for each other in a cycle; a network has none")
    ends = [index for index, readers in enumerate(graph.consumers[:-1]) if not readers]
    if len(ends) != 1:
        raise UserError(f"layers {_some(ends)} are read by nobody; exactly one may be, the output")


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
