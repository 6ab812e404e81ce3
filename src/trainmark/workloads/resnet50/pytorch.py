"""Trains ResNet-50 v1.5 on ImageNet-like folders, CIFAR-10 binaries or synthetic images; see workload.yaml."""

from __future__ import annotations

import trainmark_job
import trainmark_resnet50
from trainmark_resnet50 import DEFAULTS


def main() -> None:
    config = trainmark_job.begin("images", DEFAULTS)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_classify
    import trainmark_torch
    from model import ResNet50

    classes = config["params"]["classes"]
    given = trainmark_resnet50.images(config)
    place = trainmark_torch.join(config)
    trainmark_classify.train(config, place, trainmark_classify.of(lambda: ResNet50(classes), given))


if __name__ == "__main__":
    trainmark_job.run(main)
