"""What the layers of ResNet-50 are called in weights of other libraries. Pure.

Shapes do not tell tensors apart: 53 batch normalisations have four vectors each, many of one length. So weights of a
file are taken by name or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trainmark.automl.graph import graph as ops
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.start_networks import resnet50

# Blocks of each stage, and the parts of a block in the order of the graph's layers; 0 is the projection of its input.
_BLOCKS = (3, 4, 6, 3)
_PARTS = (("conv", 1), ("bn", 1), ("conv", 2), ("bn", 2), ("conv", 3))
_PROJECTED = (("conv", 0), ("bn", 3), ("bn", 0))
# Keras' names of tensors, by the kind of layer.
_KERAS_TENSORS = {"kernel": "weight", "gamma": "weight", "bias": "bias", "beta": "bias"}
_KERAS_TENSORS |= {"moving_mean": "running_mean", "moving_variance": "running_var"}


class _Part(NamedTuple):
    """A layer with weights: of the first layers (stage 0), of a block, or the classifier (stage 5)."""

    kind: str
    stage: int = 0
    block: int = 0
    number: int = 1


class Match(NamedTuple):
    """Which tensor of a file is which of the network's."""

    # Who made the file.
    source: str
    # By the name in the network: the name in the file.
    names: dict[str, str]
    # In the file, but of nothing in the network.
    strange: list[str]


def match(graph: Graph, names: Iterable[str]) -> Match | None:
    """None where the file has names of none of the libraries, or the graph is not ResNet-50."""
    given = list(names)
    own = {f"l{index}" for index in range(len(graph.layers))}
    if any(name.partition(".")[0] in own for name in given):
        return Match("trainmark", {name: name for name in given}, [])
    classes = graph.layers[-1].width
    if graph.layers != resnet50(graph.shape, classes).layers:
        return None
    weighted = [index for index, layer in enumerate(graph.layers) if layer.op in (ops.CONV, ops.BN, ops.DENSE)]
    for source, spell in _SOURCES.items():
        layers = {spell(part): f"l{index}" for index, part in zip(weighted, _parts(), strict=True)}
        known: dict[str, str] = {}
        strange = []
        for name in given:
            layer, tensor = _split(name)
            if layer in layers:
                known[f"{layers[layer]}.{tensor}"] = name
            else:
                strange.append(name)
        if known:
            return Match(source, known, strange)
    return None


def _split(name: str) -> tuple[str, str]:
    """The layer and its tensor: `layer1.0.bn1.weight`, or `conv1_bn/conv1_bn/gamma:0` of Keras."""
    if "/" in name:
        tensor = name.rpartition("/")[2].partition(":")[0]
        return name.partition("/")[0], _KERAS_TENSORS.get(tensor, tensor)
    layer, _, tensor = name.rpartition(".")
    return layer, tensor


def _parts() -> Iterator[_Part]:
    """In the order of the graph's layers."""
    yield _Part("conv")
    yield _Part("bn")
    for stage, blocks in enumerate(_BLOCKS, 1):
        for block in range(1, blocks + 1):
            for kind, number in (*_PARTS, *(_PROJECTED if block == 1 else (("bn", 3),))):
                yield _Part(kind, stage, block, number)
    yield _Part("classifier", 5)


def _torchvision(part: _Part) -> str:
    if part.kind == "classifier":
        return "fc"
    if not part.stage:
        return f"{part.kind}1"
    place = f"layer{part.stage}.{part.block - 1}"
    return f"{place}.{part.kind}{part.number}" if part.number else f"{place}.downsample.{int(part.kind == 'bn')}"


def _keras(part: _Part) -> str:
    if part.kind == "classifier":
        return "predictions"
    place = f"conv{part.stage + 1}_block{part.block}_{part.number}" if part.stage else "conv1"
    return f"{place}_{part.kind}"


def _keras_before_2_4(part: _Part) -> str:
    """`res4b_branch2c`: stage 4, second block, third convolution."""
    if part.kind == "classifier":
        return "fc1000"
    if not part.stage:
        return "conv1" if part.kind == "conv" else "bn_conv1"
    branch = f"2{'abc'[part.number - 1]}" if part.number else "1"
    prefix = "res" if part.kind == "conv" else "bn"
    return f"{prefix}{part.stage + 1}{chr(ord('a') + part.block - 1)}_branch{branch}"


_SOURCES = {"torchvision or timm": _torchvision, "Keras": _keras, "Keras before 2.4": _keras_before_2_4}
