"""The small network for 28 x 28 grey images as all frameworks train it: parameters, data, and first weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trainmark_probe as probe
from trainmark_job import InputError

if TYPE_CHECKING:
    from trainmark_images import Arrays
    from trainmark_weights import Weight

PARAMETERS = {
    "batch": 64, "classes": 10,
    "lr": 0.05, "momentum": 0.9, "weight_decay": 0.0005,
    "steps": 0, "epochs": 10, "schedule": "cosine",
    "dtype": "fp32", "channels_last": True,
    "eval_every": 0, "target_accuracy": 0.9, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip
SIZE = 28
# Of Fashion-MNIST's training pixels; near enough for its relatives.
MEAN, STD = 0.2860, 0.3530
# Channels of the image and after each convolution, and the width of the first dense layer.
CHANNELS = (1, 16, 32)
DENSE = 128


def check(config: dict[str, Any]) -> None:
    """Before a framework is imported."""
    if not config["data"]:
        raise InputError("mnist needs data: a folder with the four IDX files of MNIST or its kin")


def open_images(config: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """Training and test images. Their size is no parameter, so the run says it."""
    import trainmark_images

    probe.note("image_size", SIZE)
    return trainmark_images.open_idx(config["data"], config["params"]["classes"], MEAN, STD)


def first_weights(classes: int) -> tuple[Weight, ...]:
    from trainmark_weights import customary

    return (
        *customary("conv1", CHANNELS[1], CHANNELS[0], 3, 3),
        *customary("conv2", CHANNELS[2], CHANNELS[1], 3, 3),
        *customary("dense1", DENSE, CHANNELS[2] * 7 * 7),
        *customary("dense2", classes, DENSE),
    )


def flops(classes: int) -> float:
    """To train on one image: forward, and backward to weights and inputs, but not to the pixels."""
    first = 28 * 28 * CHANNELS[1] * CHANNELS[0] * 9
    others = 14 * 14 * CHANNELS[2] * CHANNELS[1] * 9 + CHANNELS[2] * 7 * 7 * DENSE + DENSE * classes
    return 2.0 * (2 * first + 3 * others)
