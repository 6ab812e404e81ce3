"""The small network in JAX; see workload.yaml."""

from __future__ import annotations

from typing import Any

import trainmark_job
import trainmark_mnist


def main() -> None:
    config = trainmark_job.begin("images", trainmark_mnist.DEFAULTS)
    trainmark_mnist.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import jax
    import trainmark_jax as lib

    def model(weights: Any, statistics: Any, images: Any, training: bool) -> Any:  # noqa: ARG001
        hidden = images
        for name in ("conv1", "conv2"):
            hidden = lib.convolved(weights, name, hidden, 1, 1) + weights[f"{name}.bias"].astype(hidden.dtype)
            hidden = lib.pooled(jax.nn.relu(hidden), 2, 2, 0)
        # The dense layer's weights are meant for channels first.
        hidden = hidden.transpose(0, 3, 1, 2).reshape(len(hidden), -1)
        hidden = jax.nn.relu(lib.dense(weights, "dense1", hidden))
        return lib.dense(weights, "dense2", hidden), statistics

    lib.classify(config, trainmark_mnist.images(config), model)


if __name__ == "__main__":
    trainmark_job.run(main)
