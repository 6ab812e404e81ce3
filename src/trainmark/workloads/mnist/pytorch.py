"""Trains a small network on MNIST, Fashion-MNIST or any data of their shape; see workload.yaml."""

from __future__ import annotations

import shared
import trainmark_job
from shared import PARAMETERS, SIZE


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    batch, classes, accumulate = params["batch"], params["classes"], params.get("accumulate", 1)
    shared.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import torch
    import trainmark_torch as lib
    from model import SmallNet
    from torch.nn.functional import cross_entropy
    from trainmark_loop import Shards, Target, learning_rate
    from trainmark_torch_images import Feed

    # Data: each rank has its own share of each epoch's random order.
    train, test = shared.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), batch, ranks, config["seed"], accumulate)
    train_feed, test_feed = (Feed(source, ranks, SIZE, params["channels_last"]) for source in (train, test))

    # Model, with the first weights that all frameworks begin with.
    precision = lib.Precision(params["dtype"], ranks.device)
    torch.manual_seed(config["seed"])
    model = SmallNet(classes)
    lib.set_first_weights(model, shared.first_weights(classes))
    model.to(ranks.device, memory_format=torch.channels_last if params["channels_last"] else torch.contiguous_format)
    network = lib.share(model, ranks)

    # Optimizer and schedule.
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    momentum, decay = params["momentum"], params["weight_decay"]
    optimizer = torch.optim.SGD(
        model.parameters(), params["lr"], momentum, weight_decay=decay, fused=lib.can_fuse(ranks)
    )

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], workers=0),
        evaluate=lambda: test_feed.accuracy(model, batch, workers=0),
        target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for step in loop:
        lib.set_learning_rate(optimizer, learning_rate(params["lr"], step, steps, 0, params["schedule"]))
        optimizer.zero_grad(set_to_none=True)
        for images, labels in loop.batches():
            with precision.autocast():
                loss = cross_entropy(network(images), labels)
            loop.backward(loss, samples=len(labels))
        loop.update()
    loop.finish(lambda: lib.training_flops(lambda: SmallNet(classes), lambda: (torch.empty(2, 1, SIZE, SIZE),)))


if __name__ == "__main__":
    trainmark_job.run(main)
