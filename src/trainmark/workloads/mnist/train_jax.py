"""The small network in JAX; see workload.yaml."""

from __future__ import annotations

from typing import Any

import shared
import trainmark_job
from shared import PARAMETERS, SIZE


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    shared.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import jax
    import jax.numpy as jnp
    import trainmark_arrays
    import trainmark_jax as lib
    from jax.nn import log_softmax, relu
    from trainmark_images import ArrayFeed
    from trainmark_loop import Shards, Target, learning_rate

    # Data: each rank has its own share of each epoch's random order.
    train, test = shared.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), params["batch"], ranks, config["seed"])
    train_feed, test_feed = (ArrayFeed(source, ranks, SIZE, channels_last=True) for source in (train, test))
    dtype = lib.DTYPES[params["dtype"]]

    def model(weights: Any, images: Any) -> Any:
        hidden = images.astype(dtype)
        for name in ("conv1", "conv2"):
            hidden = lib.convolved(weights, name, hidden, 1, 1) + weights[f"{name}.bias"].astype(hidden.dtype)
            hidden = lib.pooled(relu(hidden), 2, 2, 0)
        # The dense layer's weights are meant for channels first.
        hidden = hidden.transpose(0, 3, 1, 2).reshape(len(hidden), -1)
        hidden = relu(lib.dense(weights, "dense1", hidden))
        return lib.dense(weights, "dense2", hidden).astype(jnp.float32)

    def update(weights: Any, speeds: Any, statistics: Any, images: Any, labels: Any, lr: Any) -> Any:
        """Stochastic gradient descent with momentum; gradients are averaged over the ranks."""
        loss, gradients = jax.value_and_grad(lambda now: lib.cross_entropy(model(now, images), labels))(weights)
        gradients = jax.lax.pmean(gradients, lib.RANKS)
        momentum, decay = params["momentum"], params["weight_decay"]
        speeds = jax.tree.map(lambda v, g, w: momentum * v + (g + decay * w), speeds, gradients, weights)
        return jax.tree.map(lambda w, v: w - lr * v, weights, speeds), speeds, statistics, loss

    @jax.jit
    def judge(weights: Any, statistics: Any, images: Any, labels: Any, counts: Any) -> Any:  # noqa: ARG001
        scores = model(weights, images)
        loss = -jnp.take_along_axis(log_softmax(scores), labels[:, None], 1)[:, 0]
        return jnp.stack((((scores.argmax(1) == labels) * counts).sum(), (loss * counts).sum(), counts.sum()))

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, test_feed.evaluation(params["batch"]))
        return {"accuracy": correct / count, "loss": loss / count}

    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    loop = lib.JaxLoop(
        config, ranks, trainmark_arrays.first_weights(shared.first_weights(params["classes"])), update, steps=steps,
        steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], workers=0), evaluate=evaluate,
        target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for step in loop:
        batch = loop.batch()
        loss = loop.update(batch, learning_rate(params["lr"], step, steps, 0, params["schedule"]))
        loop.done(len(batch.labels), loss)
    loop.finish(lambda: shared.flops(params["classes"]))


if __name__ == "__main__":
    trainmark_job.run(main)
