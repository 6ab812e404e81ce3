"""Trains a Vision Transformer, of any size, on pictures; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job

if TYPE_CHECKING:
    import torch
    from torch import nn

DEFAULTS = {
    "batch": 64,
    "steps": 0,
    "epochs": 300,
    "lr": 0.001,
    "beta1": 0.9,
    "beta2": 0.999,
    "weight_decay": 0.1,
    "clip": 1.0,
    "label_smoothing": 0.1,
    "warmup_steps": 10000,
    "schedule": "cosine",
    "dtype": "fp32",
    "accumulate": 1,
    "compile": False,
    "recompute": False,
    "image_size": 224,
    "patch": 16,
    "classes": 1000,
    "layers": 12,
    "heads": 12,
    "width": 768,
    "inner": 3072,
    "channels_last": False,
    "workers": 0,
    "eval_every": 0,
    "target_accuracy": 0.75,
    "stop_at_target": True,
    "checkpoint_every": 0,
}
SHAPE = ("patch", "classes", "layers", "heads", "width", "inner", "recompute")
LR_BATCH = 4096


def main() -> None:
    config = trainmark_job.begin("images", DEFAULTS)
    params = config["params"]
    size, classes = params["image_size"], params["classes"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_classify
    import trainmark_images
    import trainmark_lm
    import trainmark_probe
    import trainmark_torch
    from model import ViT

    train, test, kind = trainmark_images.open_pictures(config["data"], size, classes)
    trainmark_probe.note("data", kind)
    print(f"data: {kind}, {len(train)} images of {size} x {size}", flush=True)
    place = trainmark_torch.join(config)

    def build() -> nn.Module:
        return ViT(size, **{name: params[name] for name in SHAPE})

    def optimizer(model: nn.Module, lr: float) -> torch.optim.Optimizer:
        return trainmark_lm.adamw(model, lr, (params["beta1"], params["beta2"]), params["weight_decay"], place)

    pictures = trainmark_classify.Pictures(build, train, test, size, LR_BATCH, optimizer=optimizer)
    trainmark_classify.train(config, place, pictures)


if __name__ == "__main__":
    trainmark_job.run(main)
