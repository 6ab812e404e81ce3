"""ResNet-50 v1.5 as all frameworks train it: parameters, shape of the network, first weights; torchvision's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trainmark_weights import Weight

PARAMETERS = {
    "batch": 32, "accumulate": 1, "image_size": 224, "classes": 1000, "workers": 0,
    "lr": 0.1, "momentum": 0.9, "weight_decay": 0.0001, "label_smoothing": 0.1,
    "steps": 0, "epochs": 90, "warmup_epochs": 5, "schedule": "cosine",
    "dtype": "fp32", "compile": False, "channels_last": True, "data_sink_steps": 1,
    "eval_every": 0, "target_accuracy": 0.759, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip
# The learning rate is given for this many images a step, and grows with the global batch.
LR_BATCH = 256
# Blocks, inner width and stride of the first block, of each of the four layers.
LAYERS = ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2))
EXPANSION = 4
STEM = 64


class Block(NamedTuple):
    """A bottleneck: 1 x 1 down, 3 x 3 with the stride, 1 x 1 up, added to the input or its projection."""

    name: str
    inputs: int
    width: int
    stride: int
    project: bool


def blocks() -> Iterator[Block]:
    inputs = STEM
    for number, (count, width, stride) in enumerate(LAYERS, 1):
        for index in range(count):
            yield Block(f"layer{number}.{index}", inputs, width, stride if index == 0 else 1, index == 0)
            inputs = width * EXPANSION


def first_weights(classes: int) -> Iterator[Weight]:
    """He's rule for convolutions; blocks begin as identities, which lets large batches learn."""
    from trainmark_weights import convolution, customary, normalisation

    yield convolution("conv1", STEM, 3, 7)
    yield from normalisation("bn1", STEM)
    for name, inputs, width, _, project in blocks():
        outputs = width * EXPANSION
        yield convolution(f"{name}.conv1", width, inputs, 1)
        yield from normalisation(f"{name}.bn1", width)
        yield convolution(f"{name}.conv2", width, width, 3)
        yield from normalisation(f"{name}.bn2", width)
        yield convolution(f"{name}.conv3", outputs, width, 1)
        yield from normalisation(f"{name}.bn3", outputs, 0.0)
        if project:
            yield convolution(f"{name}.downsample.0", outputs, inputs, 1)
            yield from normalisation(f"{name}.downsample.1", outputs)
    yield from customary("fc", classes, LAYERS[-1][1] * EXPANSION)


def flops(size: int, classes: int) -> float:
    """To train on one image: forward, and backward to weights and inputs, but not to the pixels."""
    size = _half(size)
    first = size * size * STEM * 3 * 49
    size, others = _half(size), LAYERS[-1][1] * EXPANSION * classes
    for _, inputs, width, stride, project in blocks():
        outputs, before = width * EXPANSION, size
        size = size if stride == 1 else _half(size)
        others += before * before * inputs * width
        others += size * size * (9 * width * width + width * outputs + (inputs * outputs if project else 0))
    return 2.0 * (2 * first + 3 * others)


def _half(size: int) -> int:
    """Along one side, with a stride of 2 and padding that keeps the middle."""
    return (size + 1) // 2
