"""Trains BERT, of any size, to guess masked tokens; see workload.yaml. Parameters are named as in FlagPerf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_bert
import trainmark_job
from trainmark_bert import DEFAULTS

if TYPE_CHECKING:
    from torch import nn


def main() -> None:
    config = trainmark_job.begin("sequences", DEFAULTS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_hidden
    import trainmark_text
    import trainmark_torch
    from model import Bert
    from trainmark_masked import Masked
    from trainmark_train import Trainer

    def build(vocabulary: int) -> nn.Module:
        return Bert(vocabulary, params["max_seq_length"], **{name: params[name] for name in trainmark_bert.SHAPE})

    corpus = trainmark_text.open_corpus(config)
    place = trainmark_torch.join(config)
    task = Masked(build, corpus, place, params, config["seed"], lambda rows: trainmark_bert.weights(rows, params))
    Trainer(config, place, task, trainmark_hidden.recipe(params, place.world)).run()


if __name__ == "__main__":
    trainmark_job.run(main)
