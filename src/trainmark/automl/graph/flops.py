"""Operations per image or text, from the graph alone, by one of two named rule sets.

`aiperf` is AIPerf's own count, with all that is odd about it, so that scores can be compared: batch norm costs 36 per
layer backward whatever its size, every dense layer brings a softmax, the first convolution of the list needs no
gradient of its input, maps are square, an epoch has 1,280,000 images. `trainmark` counts the same work as it is.
"""

from __future__ import annotations

from math import prod

import msgspec

from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import Graph, Layer, Shape, infer
from trainmark.errors import UserError, one_of

RULES = ("aiperf", "trainmark")
# Images of one epoch, training and validation: AIPerf's constants, and what ImageNet has.
IMAGES = {"aiperf": (1_280_000, 50_000), "trainmark": (1_281_167, 50_000)}
# Layers beyond this many are AIPerf's own additions; its search for a kernel size replaces theirs.
AIPERF_BODY = 175
BN_FORWARD, BN_BACKWARD = 7, 29  # per element: multiply-add 2, add 1, divide 4; AIPerf's 29 taken as the rate it is


class Flops(msgspec.Struct, frozen=True):
    """Operations for one image; `forward` and `backward` have a term for each kind of work."""

    eval: int
    train: int
    forward: dict[str, int]
    backward: dict[str, int]


def rules_for(graph: Graph) -> tuple[str, ...]:
    """Rule sets that have formulas for all its layers: AIPerf has none for transformers."""
    return RULES if all(layer.op <= ops.SOFTMAX for layer in graph.layers) else ("trainmark",)


def count(graph: Graph, rules: str, kernel: int | None = None) -> Flops:
    """`kernel` is the size that AIPerf's hyper-parameter search chose for layers it had added."""
    if rules not in RULES:
        raise UserError(f"no rule set `{rules}` for operations; allowed: {one_of(RULES)}")
    if rules not in rules_for(graph):
        raise UserError("AIPerf has no formulas for transformers: take the rule set `trainmark` for operations")
    forward, backward = _aiperf(graph, kernel) if rules == "aiperf" else _trainmark(graph)
    return Flops(
        eval=sum(forward.values()),
        train=sum(forward.values()) + sum(backward.values()),
        forward=forward,
        backward=backward,
    )


def epoch(flops: Flops, train_images: int, eval_images: int) -> int:
    """Operations of one epoch over so many images."""
    return train_images * flops.train + eval_images * flops.eval


def _aiperf(graph: Graph, kernel: int | None) -> tuple[dict[str, int], dict[str, int]]:
    shapes = infer(graph, halving=True)
    forward: dict[str, int] = {}
    backward: dict[str, int] = {}
    first = True
    for index, layer in enumerate(graph.layers):
        came = shapes[layer.a]
        if layer.op == ops.CONV:
            size = kernel if kernel and index >= AIPERF_BODY else layer.kernel
            side = (came[0] + 2 * (layer.kernel // 2) - size) // layer.stride + 1
            weights = size**2 * came[-1] * layer.width
            _more(forward, "conv", 2 * weights * side**2)
            _more(backward, "conv", weights * ((2 if first else 4) * side**2 + 2))
            first = False
        elif layer.op == ops.DENSE:
            _more(forward, "dense", 2 * came[-1] * layer.width)
            _more(forward, "softmax", _softmax(layer.width))
            _more(backward, "dense", 4 * came[-1] * layer.width + 2 * (came[-1] + 1) * layer.width)
        elif layer.op == ops.BN:
            _more(forward, "batch_norm", BN_FORWARD * prod(came))
            _more(backward, "batch_norm", BN_BACKWARD + 7)
        elif layer.op != ops.SOFTMAX:
            _simple(forward, layer, came)
    return forward, backward


def _trainmark(graph: Graph) -> tuple[dict[str, int], dict[str, int]]:
    forward: dict[str, int] = {}
    backward: dict[str, int] = {}
    learns = {ops.INPUT: False}  # whether anything up to here has weights, so that gradients must come this far
    for index in graph.order:
        layer = graph.layers[index]
        came, out = graph.shapes[layer.a], graph.shapes[index]
        before = learns[layer.a] or learns.get(layer.b, False)
        learns[index] = before or layer.op in _LEARN
        if layer.op in (ops.CONV, ops.DENSE, ops.PATCHES):
            # What every number of the output is the sum of, and how many of these there are for each channel of it.
            inputs = came[-1] * (1 if layer.op == ops.DENSE else layer.kernel**2)
            work = 2 * inputs * prod(out)
            name = "dense" if layer.op == ops.DENSE else "conv"
            _more(forward, name, work)
            _more(backward, name, work * (2 if before else 1))
        elif layer.op in (ops.ATTENTION, ops.MLP, ops.NORM):
            _transformer(forward, backward, layer, came)
        elif layer.op == ops.BN:
            _more(forward, "batch_norm", BN_FORWARD * prod(came))
            _more(backward, "batch_norm", BN_BACKWARD * prod(came))
        elif layer.op != ops.SOFTMAX:
            _simple(forward, layer, came)
    tokens = prod(graph.shapes[graph.output][:-1])
    _more(forward, "softmax", tokens * _softmax(graph.classes))
    return forward, backward


_LEARN = (ops.CONV, ops.DENSE, ops.BN, ops.TOKENS, ops.PATCHES, ops.ATTENTION, ops.MLP, ops.NORM)


def _transformer(forward: dict[str, int], backward: dict[str, int], layer: Layer, came: Shape) -> None:
    """Tokens times channels. What no token may see is counted, too: programs work it out, and so do others who count.
    A layer norm costs what a batch norm does; all of it is work whose input has a gradient."""
    tokens, channels = came
    _more(forward, "layer_norm", BN_FORWARD * tokens * channels)
    _more(backward, "layer_norm", BN_BACKWARD * tokens * channels)
    if layer.op == ops.NORM:
        return
    inner = layer.width * layer.kernel if layer.op == ops.ATTENTION else layer.width
    dense = 2 * tokens * channels * inner * (4 if layer.op == ops.ATTENTION else 2)
    _more(forward, "dense", dense)
    _more(backward, "dense", 2 * dense)
    _more(forward, "add", tokens * channels)
    if layer.op == ops.MLP:
        _more(forward, "gelu", tokens * inner)
        return
    products = 2 * 2 * tokens * tokens * inner
    _more(forward, "attention", products)
    _more(backward, "attention", 2 * products)
    _more(forward, "softmax", layer.width * tokens * _softmax(tokens))


def _simple(forward: dict[str, int], layer: Layer, came: Shape) -> None:
    """Work without weights; both rule sets count it alike, and none of it backward."""
    if layer.op in (ops.RELU, ops.ADD):
        _more(forward, "relu" if layer.op == ops.RELU else "add", prod(came))
    elif layer.op == ops.MAXPOOL:
        _more(forward, "max_pool", prod(came) * layer.kernel**2 // layer.stride**2)
    elif layer.op == ops.MEAN:
        _more(forward, "mean", (came[0] - 1) * came[1] + 4 * came[1])
    elif layer.op == ops.GAP:
        _more(forward, "global_avg_pool", (came[0] * came[1] - 1) * came[2] + 4 * came[2])


def _softmax(classes: int) -> int:
    """An exponential (8), a division (4) and nearly an addition each."""
    return 13 * classes - 1


def _more(terms: dict[str, int], name: str, work: int) -> None:
    terms[name] = terms.get(name, 0) + work
