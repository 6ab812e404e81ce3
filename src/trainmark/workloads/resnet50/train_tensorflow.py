"""ResNet-50 v1.5 in TensorFlow; see workload.yaml."""

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
    import tensorflow as tf
    import trainmark_arrays
    import trainmark_images
    import trainmark_tensorflow as lib
    from trainmark_images import ArrayFeed
    from trainmark_loop import Shards, Target, learning_rate

    # Data: each rank has its own share of each epoch's random order.
    train, test = trainmark_images.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), params["batch"], ranks, config["seed"])
    train_feed = ArrayFeed(train, ranks, size, channels_last=True)
    test_feed = test and ArrayFeed(test, ranks, size, channels_last=True)

    def model(variables: Any, images: Any, training: bool) -> Any:
        def part(conv: str, norm: str, hidden: Any, stride: int, padding: int) -> Any:
            hidden = lib.convolved(variables, conv, hidden, stride, padding)
            return lib.normalised(variables, norm, hidden, training)

        images = tf.cast(images, lib.DTYPES[params["dtype"]])
        hidden = lib.pooled(tf.nn.relu(part("conv1", "bn1", images, 2, 3)), 3, 2, 1)
        for name, _, _, stride, project in shared.blocks():
            inner = tf.nn.relu(part(f"{name}.conv1", f"{name}.bn1", hidden, 1, 0))
            inner = tf.nn.relu(part(f"{name}.conv2", f"{name}.bn2", inner, stride, 1))
            inner = part(f"{name}.conv3", f"{name}.bn3", inner, 1, 0)
            if project:
                hidden = part(f"{name}.downsample.0", f"{name}.downsample.1", hidden, stride, 0)
            hidden = tf.nn.relu(hidden + inner)
        return tf.cast(lib.dense(variables, "fc", tf.reduce_mean(hidden, (1, 2))), tf.float32)

    state = lib.State(trainmark_arrays.first_weights(tuple(shared.first_weights(classes))), ranks)

    def update(images: Any, labels: Any, lr: Any) -> Any:
        """Stochastic gradient descent with momentum; gradients are averaged over the ranks."""
        with tf.GradientTape() as tape:
            scores = model(state.weights | state.statistics, images, training=True)
            loss = lib.cross_entropy(scores, labels, params["label_smoothing"])
        gradients = ranks.mean(tape.gradient(loss, list(state.weights.values())))
        for name, gradient in zip(state.weights, gradients, strict=True):
            weight, speed = state.weights[name], state.speeds[name]
            speed.assign(params["momentum"] * speed + (gradient + params["weight_decay"] * weight))
            weight.assign_sub(lr * speed)
        return loss

    @tf.function(autograph=False)
    def judge(images: Any, labels: Any, counts: Any) -> Any:
        scores = model(state.weights | state.agreed, images, training=False)
        correct = tf.cast(tf.argmax(scores, 1, tf.int32) == labels, tf.float32)
        loss = -tf.gather(tf.nn.log_softmax(scores), labels, batch_dims=1)
        return tf.stack([tf.reduce_sum(correct * counts), tf.reduce_sum(loss * counts), tf.reduce_sum(counts)])

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, test_feed.evaluation(params["batch"]))
        return {"accuracy": correct / count, "loss": loss / count}

    # The learning rate is for 256 images a step, and grows with the global batch.
    peak_lr = params["lr"] * (params["batch"] * ranks.world / LR_BATCH)
    warmup = params["warmup_epochs"] * order.steps_per_epoch
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    loop = lib.TensorFlowLoop(
        config, ranks, state, update, steps=steps, steps_per_epoch=order.steps_per_epoch,
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
