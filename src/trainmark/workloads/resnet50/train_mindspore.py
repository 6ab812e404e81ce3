"""ResNet-50 v1.5 in MindSpore; see workload.yaml."""

from __future__ import annotations

import shared
import trainmark_job
from shared import LR_BATCH, PARAMETERS


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    size, classes = params["image_size"], params["classes"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_arrays
    import trainmark_images
    import trainmark_mindspore as lib
    from mindspore import nn
    from mindspore_net import ResNet50
    from trainmark_images import ArrayFeed
    from trainmark_loop import Shards, Target, learning_rate

    # Data: each rank has its own share of each epoch's random order.
    ranks = lib.join(config)
    train, test = trainmark_images.open_images(config)
    order = Shards(len(train), params["batch"], ranks, config["seed"])
    train_feed = ArrayFeed(train, ranks, size, channels_last=False)
    test_feed = test and ArrayFeed(test, ranks, size, channels_last=False)

    # Model, with the first weights that all frameworks begin with.
    first = trainmark_arrays.first_weights(tuple(shared.first_weights(classes)))
    net = lib.set_first_weights(ResNet50(classes), first, params["dtype"])
    judge = lib.Correct(net)

    # Stochastic gradient descent with momentum, and its learning rate at each step, which grows with the global batch.
    peak_lr = params["lr"] * (params["batch"] * ranks.world / LR_BATCH)
    warmup = params["warmup_epochs"] * order.steps_per_epoch
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    rates = [learning_rate(peak_lr, step, steps, warmup, params["schedule"]) for step in range(steps)]
    # A group of its own: without one, scales and shifts would not decay as they do elsewhere.
    weights = [{"params": list(net.trainable_params()), "weight_decay": params["weight_decay"]}]
    optimizer = nn.Momentum(weights, lib.Rates(rates), params["momentum"])

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, test_feed.evaluation(params["batch"]))
        return {"accuracy": correct / count, "loss": loss / count}

    loop = lib.MindSporeLoop(
        config, ranks, net, lib.CrossEntropy(net, params["label_smoothing"]), optimizer, steps=steps,
        steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], params["workers"]),
        evaluate=evaluate if test_feed else None, target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for _ in loop:
        batch = loop.batch()
        loop.done(len(batch.labels), loop.update(batch))
    loop.finish(lambda: shared.flops(size, classes))


if __name__ == "__main__":
    trainmark_job.run(main)
