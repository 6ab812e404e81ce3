"""BERT, of any size, in MindSpore; see workload.yaml."""

from __future__ import annotations

import trainmark_bert
import trainmark_job


def main() -> None:
    config = trainmark_job.begin("sequences", trainmark_bert.DEFAULTS)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_mindspore
    import trainmark_mindspore_lm
    from mindspore_net import Bert

    place = trainmark_mindspore.join(config)
    trainmark_mindspore_lm.train(config, place, lambda rows: Bert(rows, config["params"]))


if __name__ == "__main__":
    trainmark_job.run(main)
