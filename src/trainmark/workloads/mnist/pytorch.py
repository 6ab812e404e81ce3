"""Trains a small network on MNIST, Fashion-MNIST or any data of their shape; see workload.yaml."""

from __future__ import annotations

import trainmark_job
import trainmark_mnist
from trainmark_mnist import DEFAULTS


def main() -> None:
    config = trainmark_job.begin("images", DEFAULTS)
    trainmark_mnist.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_classify
    import trainmark_torch
    from model import SmallNet

    classes = config["params"]["classes"]
    given = trainmark_mnist.images(config)
    place = trainmark_torch.join(config)
    trainmark_classify.train(config, place, trainmark_classify.of(lambda: SmallNet(classes), given))


if __name__ == "__main__":
    trainmark_job.run(main)
