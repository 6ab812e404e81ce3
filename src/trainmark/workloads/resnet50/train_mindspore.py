"""ResNet-50 v1.5 in MindSpore; see workload.yaml."""

from __future__ import annotations

import trainmark_job
import trainmark_resnet50


def main() -> None:
    config = trainmark_job.begin("images", trainmark_resnet50.DEFAULTS)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_mindspore as lib
    from mindspore_net import ResNet50

    place = lib.join(config)
    lib.classify(config, place, trainmark_resnet50.images(config), ResNet50(config["params"]["classes"]))


if __name__ == "__main__":
    trainmark_job.run(main)
