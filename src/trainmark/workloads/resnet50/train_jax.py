"""ResNet-50 v1.5 in JAX; see workload.yaml."""

from __future__ import annotations

from typing import Any

import shared
import trainmark_job
from shared import LR_BATCH, PARAMETERS


def main() -> None:
    config = trainmark_job.begin("images", PARAMETERS)
    params = config["params"]
    size, classes = params["image_size"], params["classes"]

    # Imported late, so that the time it takes is seen as initialisation.
    import jax
    import jax.numpy as jnp
    import trainmark_arrays
    import trainmark_images
    import trainmark_jax as lib
    from jax.nn import log_softmax, relu
    from trainmark_images import ArrayFeed
    from trainmark_loop import Shards, Target, learning_rate

    # Data: each rank has its own share of each epoch's random order.
    train, test = trainmark_images.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), params["batch"], ranks, config["seed"])
    train_feed = ArrayFeed(train, ranks, size, channels_last=True)
    test_feed = test and ArrayFeed(test, ranks, size, channels_last=True)
    dtype = lib.DTYPES[params["dtype"]]

    def model(weights: Any, statistics: Any, images: Any, training: bool) -> tuple[Any, Any]:
        """Scores of the classes, and the running statistics of the normalisations after these images."""
        moved = dict(statistics)

        def part(conv: str, norm: str, hidden: Any, stride: int, padding: int) -> Any:
            hidden = lib.convolved(weights, conv, hidden, stride, padding)
            return lib.normalised(weights, statistics, norm, hidden, training, moved)

        hidden = lib.pooled(relu(part("conv1", "bn1", images.astype(dtype), 2, 3)), 3, 2, 1)
        for name, _, _, stride, project in shared.blocks():
            inner = relu(part(f"{name}.conv1", f"{name}.bn1", hidden, 1, 0))
            inner = relu(part(f"{name}.conv2", f"{name}.bn2", inner, stride, 1))
            inner = part(f"{name}.conv3", f"{name}.bn3", inner, 1, 0)
            if project:
                hidden = part(f"{name}.downsample.0", f"{name}.downsample.1", hidden, stride, 0)
            hidden = relu(hidden + inner)
        return lib.dense(weights, "fc", hidden.mean((1, 2))).astype(jnp.float32), moved

    def training_loss(weights: Any, statistics: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        scores, statistics = model(weights, statistics, images, True)
        return lib.cross_entropy(scores, labels, params["label_smoothing"]), statistics

    def update(weights: Any, speeds: Any, statistics: Any, images: Any, labels: Any, lr: Any) -> Any:
        """Stochastic gradient descent with momentum; gradients are averaged over the ranks."""
        (loss, statistics), gradients = jax.value_and_grad(training_loss, has_aux=True)(
            weights, statistics, images, labels
        )
        gradients = jax.lax.pmean(gradients, lib.RANKS)
        momentum, decay = params["momentum"], params["weight_decay"]
        speeds = jax.tree.map(lambda v, g, w: momentum * v + (g + decay * w), speeds, gradients, weights)
        return jax.tree.map(lambda w, v: w - lr * v, weights, speeds), speeds, statistics, loss

    @jax.jit
    def judge(weights: Any, statistics: Any, images: Any, labels: Any, counts: Any) -> Any:
        scores, _ = model(weights, statistics, images, False)
        loss = -jnp.take_along_axis(log_softmax(scores), labels[:, None], 1)[:, 0]
        return jnp.stack((((scores.argmax(1) == labels) * counts).sum(), (loss * counts).sum(), counts.sum()))

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, test_feed.evaluation(params["batch"]))
        return {"accuracy": correct / count, "loss": loss / count}

    # The learning rate is for 256 images a step, and grows with the global batch.
    peak_lr = params["lr"] * (params["batch"] * ranks.world / LR_BATCH)
    warmup = params["warmup_epochs"] * order.steps_per_epoch
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    loop = lib.JaxLoop(
        config, ranks, trainmark_arrays.first_weights(tuple(shared.first_weights(classes))), update, steps=steps,
        steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: train_feed.training(order, numbers, config["seed"], params["workers"]),
        evaluate=evaluate if test_feed else None, target=Target("accuracy", "up", params["target_accuracy"]),
    )  # fmt: skip
    for step in loop:
        batch = loop.batch()
        loss = loop.update(batch, learning_rate(peak_lr, step, steps, warmup, params["schedule"]))
        loop.done(len(batch.labels), loss)
    loop.finish(lambda: shared.flops(size, classes))


if __name__ == "__main__":
    trainmark_job.run(main)
