"""BERT, of any size, in MindSpore; see workload.yaml."""

from __future__ import annotations

import shared
import trainmark_job
from shared import PARAMETERS


def main() -> None:
    config = trainmark_job.begin("sequences", PARAMETERS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import mindspore as ms
    import numpy as np
    import trainmark_arrays
    import trainmark_mindspore as lib
    import trainmark_text
    from masked_text import MaskedText
    from mindspore_lamb import Lamb
    from mindspore_net import Bert, Correct, CrossEntropy
    from trainmark_loop import Target, learning_rate

    # Data: sequences in which some tokens are hidden.
    ranks = lib.join(config)
    text = MaskedText(trainmark_text.open_corpus(config), ranks, params, config["seed"])

    # Model, with the first weights that all frameworks begin with.
    ms.set_seed(config["seed"] & 0x7FFFFFFF)
    first = trainmark_arrays.first_weights(tuple(shared.first_weights(text.rows, params)))
    net = lib.set_first_weights(Bert(text.rows, params), first, params["dtype"])
    judge = Correct(net)

    # Optimizer, and its learning rate at each step.
    length, peak_lr = shared.steps(params, ranks.world), params["learning_rate"]
    rates = [learning_rate(peak_lr, step, params["max_steps"], length.warmup, "linear") for step in range(length.steps)]
    optimizer = Lamb(list(net.trainable_params()), lib.Rates(rates), params)

    def evaluate() -> dict[str, float]:
        found = ((*guesses, counts.astype(np.float32)) for guesses, counts in text.evaluation())
        correct, loss, count = loop.sums(judge, found)
        return {"mlm_accuracy": correct / count, "loss": loss / count}

    loop = lib.MindSporeLoop(
        config, ranks, net, CrossEntropy(net), optimizer, steps=length.steps, steps_per_epoch=text.steps_per_epoch,
        batches=text.training, evaluate=None if text.synthetic else evaluate, eval_every=length.eval_every,
        eval_from=length.eval_from, target=Target("mlm_accuracy", "up", params["target_mlm_accuracy"]),
    )  # fmt: skip
    for _ in loop:
        batch = loop.batch()
        loop.done(len(batch.tokens), loop.update(batch))
    loop.finish(lambda: shared.flops(text.rows, text.guesses, params))


if __name__ == "__main__":
    trainmark_job.run(main)
