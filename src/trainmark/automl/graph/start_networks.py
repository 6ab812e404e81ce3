"""Networks to start a search from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import Graph, Layer, Shape, check


class Builder:
    """Layers in the order they are named; each call gives the new layer's number."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []

    def add(self, op: int, a: int, b: int = ops.NONE, **values: int) -> int:
        self.layers.append(Layer(op, a, b, **values))
        return len(self.layers) - 1

    def conv(self, a: int, filters: int, kernel: int, stride: int = 1) -> int:
        return self.add(ops.CONV, a, width=filters, kernel=kernel, stride=stride)

    def conv_bn_relu(self, a: int, filters: int, kernel: int, stride: int = 1) -> int:
        return self.add(ops.RELU, self.add(ops.BN, self.conv(a, filters, kernel, stride)))


def resnet50(shape: Shape = (224, 224, 3), classes: int = 1000) -> Graph:
    """AIPerf's: each stage's stride is in the first 1×1 convolution of its first block."""
    net = Builder()
    x = net.add(ops.MAXPOOL, net.conv_bn_relu(ops.INPUT, 64, 7, 2), kernel=3, stride=2)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            x = _bottleneck(net, x, 64 << stage, 2 if stage and not block else 1, project=not block)
    net.add(ops.DENSE, net.add(ops.GAP, x), width=classes)
    return check(Graph(shape, tuple(net.layers)), "resnet50")


def _bottleneck(net: Builder, x: int, filters: int, stride: int, project: bool) -> int:
    deep = net.conv_bn_relu(net.conv_bn_relu(x, filters, 1, stride), filters, 3)
    deep = net.conv(deep, 4 * filters, 1)
    # Layer numbers as in AIPerf's own file: the projection's convolution comes before the batch norm of the other way.
    side = net.conv(x, 4 * filters, 1, stride) if project else x
    deep = net.add(ops.BN, deep)
    if project:
        side = net.add(ops.BN, side)
    return net.add(ops.RELU, net.add(ops.ADD, deep, side))


def small_cnn(shape: Shape = (32, 32, 3), classes: int = 10, blocks: int = 3, width: int = 64) -> Graph:
    """NNI's: blocks of ReLU, batch norm, convolution, pool; then one hidden dense layer."""
    net = Builder()
    x = ops.INPUT
    for _ in range(blocks):
        x = net.conv(net.add(ops.BN, net.add(ops.RELU, x)), width, 3)
        x = net.add(ops.MAXPOOL, x, kernel=2, stride=2)
    x = net.add(ops.DROPOUT, net.add(ops.GAP, x), extra=250_000)
    net.add(ops.DENSE, net.add(ops.RELU, net.add(ops.DENSE, x, width=width)), width=classes)
    return check(Graph(shape, tuple(net.layers)), "small_cnn")


def vit(
    shape: Shape = (32, 32, 3),
    classes: int = 10,
    blocks: int = 2,
    width: int = 32,
    heads: int = 2,
    ratio: int = 2,
    patch: int = 4,
) -> Graph:
    """A transformer that reads an image as patches; `width` channels, `ratio` times as many hidden units."""
    net = Builder()
    x = _blocks(net, net.add(ops.PATCHES, ops.INPUT, width=width, kernel=patch), blocks, width, heads, ratio, 0)
    net.add(ops.DENSE, net.add(ops.MEAN, net.add(ops.NORM, x)), width=classes)
    return check(Graph(shape, tuple(net.layers)), "vit")


def gpt(
    shape: Shape = (64,), classes: int = 256, blocks: int = 2, width: int = 32, heads: int = 2, ratio: int = 2
) -> Graph:
    """A transformer that says for each token of a text which comes next; `classes` are the kinds of tokens."""
    net = Builder()
    first = net.add(ops.TOKENS, ops.INPUT, width=width, kernel=classes, extra=shape[0])
    net.add(ops.DENSE, net.add(ops.NORM, _blocks(net, first, blocks, width, heads, ratio, 1)), width=classes)
    return check(Graph(shape, tuple(net.layers)), "gpt")


def _blocks(net: Builder, x: int, blocks: int, width: int, heads: int, ratio: int, causal: int) -> int:
    for _ in range(blocks):
        x = net.add(ops.ATTENTION, x, width=heads, kernel=max(1, width // heads), extra=causal)
        x = net.add(ops.MLP, x, width=ratio * width)
    return x


STARTS: dict[str, Callable[..., Graph]] = {"gpt": gpt, "resnet50": resnet50, "small_cnn": small_cnn, "vit": vit}
# Of start models that have some: their options.
OPTIONS = {
    "gpt": ("blocks", "context", "heads", "ratio", "width"),
    "small_cnn": ("blocks", "width"),
    "vit": ("blocks", "heads", "patch", "ratio", "width"),
}


def start(name: str, shape: Shape | None = None, classes: int | None = None) -> Graph:
    """A start model by its name, or the graph in a JSON file. A file has its own shape and classes."""
    if name in STARTS:
        given = {"shape": shape, "classes": classes}
        return STARTS[name](**{key: value for key, value in given.items() if value is not None})
    from trainmark.automl.graph.graph_json import load
    from trainmark.errors import UserError, did_you_mean, one_of

    if not Path(name).is_file():
        close = did_you_mean(name, STARTS)
        raise UserError(f"{name}: no such start model{close}; allowed are {one_of(STARTS)} or a graph's JSON file")
    return load(Path(name))
