"""The small network in TensorFlow; see workload.yaml."""

from __future__ import annotations

from typing import Any

import trainmark_job
import trainmark_mnist


def main() -> None:
    config = trainmark_job.begin("images", trainmark_mnist.DEFAULTS)
    trainmark_mnist.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_tensorflow as lib

    tf, dense_inputs = lib.tf, trainmark_mnist.CHANNELS[-1] * 7 * 7

    def model(variables: Any, images: Any, training: bool) -> Any:  # noqa: ARG001
        hidden = images
        for name in ("conv1", "conv2"):
            hidden = lib.convolved(variables, name, hidden, 1, 1) + tf.cast(variables[f"{name}.bias"], hidden.dtype)
            hidden = lib.pooled(tf.nn.relu(hidden), 2, 2, 0)
        # The dense layer's weights are meant for channels first.
        hidden = tf.reshape(tf.transpose(hidden, (0, 3, 1, 2)), (-1, dense_inputs))
        hidden = tf.nn.relu(lib.dense(variables, "dense1", hidden))
        return lib.dense(variables, "dense2", hidden)

    lib.classify(config, trainmark_mnist.images(config), model)


if __name__ == "__main__":
    trainmark_job.run(main)
