"""Trains a Vision Transformer, of any size, on pictures; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job

if TYPE_CHECKING:
    from torch import nn

PARAMETERS = {
    "batch": 64, "accumulate": 1, "image_size": 224, "classes": 1000, "workers": 0,
    "patch": 16, "layers": 12, "heads": 12, "width": 768, "inner": 3072,
    "lr": 0.001, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.1, "clip": 1.0, "label_smoothing": 0.1,
    "steps": 0, "epochs": 300, "warmup_steps": 10000, "schedule": "cosine",
    "dtype": "fp32", "compile": False, "recompute": False, "channels_last": False,
    "eval_every": 0, "target_accuracy": 0.75, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip
# The learning rate is given for this many images a step, and grows with the global batch.
LR_BATCH = 4096


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    batch, accumulate, size = params["batch"], params["accumulate"], params["image_size"]

    # Imported late, so that the time it takes is seen as initialisation.
    import torch
    import trainmark_images
    import trainmark_torch as lib
    from model import ViT
    from torch.nn.functional import cross_entropy
    from trainmark_loop import Shards, Target, learning_rate
    from trainmark_torch_images import Feed

    # Data: each rank has its own share of each epoch's random order.
    train, test = trainmark_images.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), batch, ranks, config["seed"], accumulate)
    train_feed = Feed(train, ranks, size, params["channels_last"])
    test_feed = None if test is None else Feed(test, ranks, size, params["channels_last"])

    # Model.
    def build() -> nn.Module:
        shape = ("patch", "classes", "layers", "heads", "width", "inner", "recompute")
        return ViT(size, **{name: params[name] for name in shape})

    lib.check_memory(build, ranks)
    precision = lib.Precision(params["dtype"], ranks.device)
    torch.manual_seed(config["seed"])
    model = build()
    model.to(ranks.device, memory_format=torch.channels_last if params["channels_last"] else torch.contiguous_format)
    network = lib.share(model, ranks)
    if params["compile"]:
        model.compile()

    # Optimizer and schedule.
    peak_lr = params["lr"] * (batch * accumulate * ranks.world / LR_BATCH)
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    weights, betas = lib.decayed(model, params["weight_decay"]), (params["beta1"], params["beta2"])
    optimizer = torch.optim.AdamW(weights, lr=peak_lr, betas=betas, fused=lib.can_fuse(ranks))

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], params["workers"]),
        evaluate=test_feed and (lambda: test_feed.accuracy(model, batch, params["workers"])),
        target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for step in loop:
        now = learning_rate(peak_lr, step, steps, params["warmup_steps"], params["schedule"])
        lib.set_learning_rate(optimizer, now)
        optimizer.zero_grad(set_to_none=True)
        for images, labels in loop.batches():
            with precision.autocast():
                loss = cross_entropy(network(images), labels, label_smoothing=params["label_smoothing"])
            loop.backward(loss, samples=len(labels))
        loop.update()
    loop.finish(lambda: lib.training_flops(build, lambda: (torch.empty(2, 3, size, size),)))


if __name__ == "__main__":
    trainmark_job.run(main)
