"""Trains a small network on MNIST, Fashion-MNIST or any data of their shape; see workload.yaml."""

from __future__ import annotations

import trainmark_job

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


def main() -> None:
    config = trainmark_job.begin("images", DEFAULTS)
    classes = config["params"]["classes"]
    if not config["data"]:
        raise trainmark_job.InputError("mnist needs data: a folder with the four IDX files of MNIST or its kin")

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_classify
    import trainmark_images
    import trainmark_torch
    from model import SmallNet

    train, test = trainmark_images.open_idx(config["data"], classes, MEAN, STD)
    place = trainmark_torch.join(config)
    pictures = trainmark_classify.Pictures(lambda: SmallNet(classes), train, test, SIZE)
    trainmark_classify.train(config, place, pictures)


if __name__ == "__main__":
    trainmark_job.run(main)
