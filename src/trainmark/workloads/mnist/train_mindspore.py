"""The small network in MindSpore; see workload.yaml."""

from __future__ import annotations

import trainmark_job
import trainmark_mnist


def main() -> None:
    config = trainmark_job.begin("images", trainmark_mnist.DEFAULTS)
    trainmark_mnist.check(config)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_mindspore as lib
    from mindspore_net import SmallNet

    place = lib.join(config)
    lib.classify(config, place, trainmark_mnist.images(config), SmallNet(config["params"]["classes"]))


if __name__ == "__main__":
    trainmark_job.run(main)
