"""Trains ResNet-50 v1.5 on ImageNet-like folders, CIFAR-10 binaries or synthetic images; see workload.yaml."""

from __future__ import annotations

import trainmark_job

DEFAULTS = {
    "batch": 32,
    "steps": 0,
    "epochs": 90,
    "lr": 0.1,
    "momentum": 0.9,
    "weight_decay": 0.0001,
    "label_smoothing": 0.1,
    "warmup_epochs": 5,
    "schedule": "cosine",
    "dtype": "fp32",
    "accumulate": 1,
    "compile": False,
    "image_size": 224,
    "classes": 1000,
    "channels_last": True,
    "workers": 0,
    "eval_every": 0,
    "target_accuracy": 0.759,
    "stop_at_target": True,
    "checkpoint_every": 0,
}
LR_BATCH = 256


def main() -> None:
    config = trainmark_job.begin("images", DEFAULTS)
    size, classes = config["params"]["image_size"], config["params"]["classes"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_classify
    import trainmark_images
    import trainmark_probe
    import trainmark_torch
    from model import ResNet50

    train, test, kind = trainmark_images.open_pictures(config["data"], size, classes)
    trainmark_probe.note("data", kind)
    print(f"data: {kind}, {len(train)} images of {size} x {size}", flush=True)
    place = trainmark_torch.join(config)
    trainmark_classify.train(
        config, place, trainmark_classify.Pictures(lambda: ResNet50(classes), train, test, size, LR_BATCH)
    )


if __name__ == "__main__":
    trainmark_job.run(main)
