"""Trains ResNet-50 v1.5 on ImageNet-like folders, CIFAR-10 binaries or synthetic images; see workload.yaml."""

from __future__ import annotations

import trainmark_job
from shared import LR_BATCH, PARAMETERS, first_weights


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    batch, accumulate, size, classes = (params[name] for name in ("batch", "accumulate", "image_size", "classes"))

    # Imported late, so that the time it takes is seen as initialisation.
    import torch
    import trainmark_images
    import trainmark_torch as lib
    from model import ResNet50
    from torch.nn.functional import cross_entropy
    from trainmark_loop import Shards, Target, learning_rate
    from trainmark_torch_images import Feed

    # Data: each rank has its own share of each epoch's random order.
    train, test = trainmark_images.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), batch, ranks, config["seed"], accumulate)
    train_feed = Feed(train, ranks, size, params["channels_last"])
    test_feed = None if test is None else Feed(test, ranks, size, params["channels_last"])

    # Model, with the first weights that all frameworks begin with.
    lib.check_memory(lambda: ResNet50(classes), ranks, moments=1)
    precision = lib.Precision(params["dtype"], ranks.device)
    torch.manual_seed(config["seed"])
    model = ResNet50(classes)
    lib.set_first_weights(model, tuple(first_weights(classes)))
    model.to(ranks.device, memory_format=torch.channels_last if params["channels_last"] else torch.contiguous_format)
    network = lib.share(model, ranks)
    if params["compile"]:
        model.compile()

    # Optimizer and schedule.
    peak_lr = params["lr"] * (batch * accumulate * ranks.world / LR_BATCH)
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    warmup = params["warmup_epochs"] * order.steps_per_epoch
    momentum, decay = params["momentum"], params["weight_decay"]
    optimizer = torch.optim.SGD(model.parameters(), peak_lr, momentum, weight_decay=decay, fused=lib.can_fuse(ranks))

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], params["workers"]),
        evaluate=test_feed and (lambda: test_feed.accuracy(model, batch, params["workers"])),
        target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for step in loop:
        lib.set_learning_rate(optimizer, learning_rate(peak_lr, step, steps, warmup, params["schedule"]))
        optimizer.zero_grad(set_to_none=True)
        for images, labels in loop.batches():
            with precision.autocast():
                loss = cross_entropy(network(images), labels, label_smoothing=params["label_smoothing"])
            loop.backward(loss, samples=len(labels))
        loop.update()
    # Two images, because batch normalisation refuses one.
    loop.finish(lambda: lib.training_flops(lambda: ResNet50(classes), lambda: (torch.empty(2, 3, size, size),)))


if __name__ == "__main__":
    trainmark_job.run(main)
