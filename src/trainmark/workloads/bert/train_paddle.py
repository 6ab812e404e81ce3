"""BERT, of any size, in PaddlePaddle; see workload.yaml."""

from __future__ import annotations

import trainmark_bert
import trainmark_job


def main() -> None:
    config = trainmark_job.begin("sequences", trainmark_bert.DEFAULTS)

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_paddle
    from paddle_net import Bert

    trainmark_paddle.train(config, lambda rows: Bert(rows, config["params"]))


if __name__ == "__main__":
    trainmark_job.run(main)
