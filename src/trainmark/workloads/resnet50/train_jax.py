"""ResNet-50 v1.5 in JAX; see workload.yaml."""

from __future__ import annotations

from typing import Any

import trainmark_job
import trainmark_resnet50


def main() -> None:
    config = trainmark_job.begin("images", trainmark_resnet50.DEFAULTS)

    # Imported late, so that the time it takes is seen as initialisation.
    import jax
    import trainmark_jax as lib

    def model(weights: Any, statistics: Any, images: Any, training: bool) -> Any:
        moved = dict(statistics)

        def part(conv: str, norm: str, hidden: Any, stride: int, padding: int) -> Any:
            hidden = lib.convolved(weights, conv, hidden, stride, padding)
            return lib.normalised(weights, statistics, norm, hidden, training, moved)

        hidden = lib.pooled(jax.nn.relu(part("conv1", "bn1", images, 2, 3)), 3, 2, 1)
        for name, _, _, stride, project in trainmark_resnet50.blocks():
            inner = jax.nn.relu(part(f"{name}.conv1", f"{name}.bn1", hidden, 1, 0))
            inner = jax.nn.relu(part(f"{name}.conv2", f"{name}.bn2", inner, stride, 1))
            inner = part(f"{name}.conv3", f"{name}.bn3", inner, 1, 0)
            if project:
                hidden = part(f"{name}.downsample.0", f"{name}.downsample.1", hidden, stride, 0)
            hidden = jax.nn.relu(hidden + inner)
        return lib.dense(weights, "fc", hidden.mean((1, 2))), moved

    lib.classify(config, trainmark_resnet50.images(config), model)


if __name__ == "__main__":
    trainmark_job.run(main)
