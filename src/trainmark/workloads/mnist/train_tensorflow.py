"""The small network in TensorFlow; see workload.yaml."""

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
    import tensorflow as tf
    import trainmark_arrays
    import trainmark_tensorflow as lib
    from trainmark_images import ArrayFeed
    from trainmark_loop import Shards, Target, learning_rate

    # Data: each rank has its own share of each epoch's random order.
    train, test = shared.open_images(config)
    ranks = lib.join(config)
    order = Shards(len(train), params["batch"], ranks, config["seed"])
    train_feed, test_feed = (ArrayFeed(source, ranks, SIZE, channels_last=True) for source in (train, test))
    dense_inputs = shared.CHANNELS[-1] * 7 * 7

    def model(weights: Any, images: Any) -> Any:
        hidden = tf.cast(images, lib.DTYPES[params["dtype"]])
        for name in ("conv1", "conv2"):
            hidden = lib.convolved(weights, name, hidden, 1, 1) + tf.cast(weights[f"{name}.bias"], hidden.dtype)
            hidden = lib.pooled(tf.nn.relu(hidden), 2, 2, 0)
        # The dense layer's weights are meant for channels first.
        hidden = tf.reshape(tf.transpose(hidden, (0, 3, 1, 2)), (-1, dense_inputs))
        hidden = tf.nn.relu(lib.dense(weights, "dense1", hidden))
        return tf.cast(lib.dense(weights, "dense2", hidden), tf.float32)

    state = lib.State(trainmark_arrays.first_weights(shared.first_weights(params["classes"])), ranks)

    def update(images: Any, labels: Any, lr: Any) -> Any:
        """Stochastic gradient descent with momentum; gradients are averaged over the ranks."""
        with tf.GradientTape() as tape:
            loss = lib.cross_entropy(model(state.weights, images), labels)
        gradients = ranks.mean(tape.gradient(loss, list(state.weights.values())))
        for name, gradient in zip(state.weights, gradients, strict=True):
            weight, speed = state.weights[name], state.speeds[name]
            speed.assign(params["momentum"] * speed + (gradient + params["weight_decay"] * weight))
            weight.assign_sub(lr * speed)
        return loss

    @tf.function(autograph=False)
    def judge(images: Any, labels: Any, counts: Any) -> Any:
        scores = model(state.weights, images)
        correct = tf.cast(tf.argmax(scores, 1, tf.int32) == labels, tf.float32)
        loss = -tf.gather(tf.nn.log_softmax(scores), labels, batch_dims=1)
        return tf.stack([tf.reduce_sum(correct * counts), tf.reduce_sum(loss * counts), tf.reduce_sum(counts)])

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, test_feed.evaluation(params["batch"]))
        return {"accuracy": correct / count, "loss": loss / count}

    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    loop = lib.TensorFlowLoop(
        config, ranks, state, update, steps=steps, steps_per_epoch=order.steps_per_epoch,
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
