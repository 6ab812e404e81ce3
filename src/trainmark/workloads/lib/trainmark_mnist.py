"""The workload `mnist` without a framework: its recipe, its data, and the first weights of its network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmark_job import InputError

if TYPE_CHECKING:
    from trainmark_pictures import Images

DEFAULTS = {
    "batch": 64,
    "steps": 0,
    "epochs": 10,
    "lr": 0.05,
    "momentum": 0.9,
    "weight_decay": 0.0005,
    "schedule": "cosine",
    "dtype": "fp32",
    "classes": 10,
    "channels_last": True,
    "eval_every": 0,
    "target_accuracy": 0.9,
    "stop_at_target": True,
    "checkpoint_every": 0,
}
SIZE = 28
# Of Fashion-MNIST's training pixels; near enough for its relatives.
MEAN, STD = 0.2860, 0.3530
CHANNELS = (1, 16, 32)
DENSE = 128


def check(config: dict[str, Any]) -> None:
    """Before a framework is imported."""
    if not config["data"]:
        raise InputError("mnist needs data: a folder with the four IDX files of MNIST or its kin")


def images(config: dict[str, Any]) -> Images:
    import trainmark_images
    from trainmark_pictures import Images
    from trainmark_weights import customary

    classes = config["params"]["classes"]
    train, test = trainmark_images.open_idx(config["data"], classes, MEAN, STD)
    weights = (
        *customary("conv1", CHANNELS[1], CHANNELS[0], 3, 3),
        *customary("conv2", CHANNELS[2], CHANNELS[1], 3, 3),
        *customary("dense1", DENSE, CHANNELS[2] * 7 * 7),
        *customary("dense2", classes, DENSE),
    )
    return Images(train, test, SIZE, weights, _flops(classes))


def _flops(classes: int) -> float:
    """Forward, and backward to weights and inputs, but not to the pixels."""
    first = 28 * 28 * CHANNELS[1] * CHANNELS[0] * 9
    others = 14 * 14 * CHANNELS[2] * CHANNELS[1] * 9 + CHANNELS[2] * 7 * 7 * DENSE + DENSE * classes
    return 2.0 * (2 * first + 3 * others)
