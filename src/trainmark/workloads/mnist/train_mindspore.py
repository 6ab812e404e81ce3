"""The small network in MindSpore; see workload.yaml."""

from __future__ import annotations

import shared
import trainmark_job
from shared import PARAMETERS, SIZE


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    shared.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_arrays
    import trainmark_mindspore as lib
    from mindspore import nn
    from mindspore_net import SmallNet
    from trainmark_images import ArrayFeed
    from trainmark_loop import Shards, Target, learning_rate

    # Data: each rank has its own share of each epoch's random order.
    ranks = lib.join(config)
    train, test = shared.open_images(config)
    order = Shards(len(train), params["batch"], ranks, config["seed"])
    train_feed, test_feed = (ArrayFeed(source, ranks, SIZE, channels_last=False) for source in (train, test))

    # Model, with the first weights that all frameworks begin with.
    first = trainmark_arrays.first_weights(shared.first_weights(params["classes"]))
    net = lib.set_first_weights(SmallNet(params["classes"]), first, params["dtype"])
    judge = lib.Correct(net)

    # Stochastic gradient descent with momentum, and its learning rate at each step.
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    rates = [learning_rate(params["lr"], step, steps, 0, params["schedule"]) for step in range(steps)]
    # A group of its own: without one, scales and shifts would not decay as they do elsewhere.
    weights = [{"params": list(net.trainable_params()), "weight_decay": params["weight_decay"]}]
    optimizer = nn.Momentum(weights, lib.Rates(rates), params["momentum"])

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, test_feed.evaluation(params["batch"]))
        return {"accuracy": correct / count, "loss": loss / count}

    loop = lib.MindSporeLoop(
        config, ranks, net, lib.CrossEntropy(net), optimizer, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], workers=0), evaluate=evaluate,
        target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for _ in loop:
        batch = loop.batch()
        loop.done(len(batch.labels), loop.update(batch))
    loop.finish(lambda: shared.flops(params["classes"]))


if __name__ == "__main__":
    trainmark_job.run(main)
