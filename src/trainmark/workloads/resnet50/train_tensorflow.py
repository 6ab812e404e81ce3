"""ResNet-50 v1.5 in TensorFlow; see workload.yaml."""

from __future__ import annotations

from typing import Any

import trainmark_job
import trainmark_resnet50


def main() -> None:
    config = trainmark_job.begin("images", trainmark_resnet50.DEFAULTS)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_tensorflow as lib

    tf = lib.tf

    def model(variables: Any, images: Any, training: bool) -> Any:
        def part(conv: str, norm: str, hidden: Any, stride: int, padding: int) -> Any:
            hidden = lib.convolved(variables, conv, hidden, stride, padding)
            return lib.normalised(variables, norm, hidden, training)

        hidden = lib.pooled(tf.nn.relu(part("conv1", "bn1", images, 2, 3)), 3, 2, 1)
        for name, _, _, stride, project in trainmark_resnet50.blocks():
            inner = tf.nn.relu(part(f"{name}.conv1", f"{name}.bn1", hidden, 1, 0))
            inner = tf.nn.relu(part(f"{name}.conv2", f"{name}.bn2", inner, stride, 1))
            inner = part(f"{name}.conv3", f"{name}.bn3", inner, 1, 0)
            if project:
                hidden = part(f"{name}.downsample.0", f"{name}.downsample.1", hidden, stride, 0)
            hidden = tf.nn.relu(hidden + inner)
        return lib.dense(variables, "fc", tf.reduce_mean(hidden, (1, 2)))

    lib.classify(config, trainmark_resnet50.images(config), model)


if __name__ == "__main__":
    trainmark_job.run(main)
