"""BERT, of any size, in PaddlePaddle; see workload.yaml."""

from __future__ import annotations

from typing import Any

import shared
import trainmark_job
from shared import PARAMETERS


def main() -> None:
    config = trainmark_job.begin("sequences", PARAMETERS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import paddle
    import trainmark_arrays
    import trainmark_paddle as lib
    import trainmark_text
    from masked_text import MaskedText
    from paddle.nn.functional import cross_entropy
    from paddle_lamb import Lamb
    from paddle_net import Bert
    from trainmark_loop import Target, learning_rate

    # Data: sequences in which some tokens are hidden.
    ranks = lib.join(config)
    text = MaskedText(trainmark_text.open_corpus(config), ranks, params, config["seed"])

    # Model, with the first weights that all frameworks begin with.
    paddle.seed(config["seed"] + ranks.rank)
    net = Bert(text.rows, params)
    lib.set_first_weights(net, trainmark_arrays.first_weights(tuple(shared.first_weights(text.rows, params))))
    net.train()

    # Optimizer and schedule.
    length, peak_lr = shared.steps(params, ranks.world), params["learning_rate"]
    optimizer = Lamb(dict(net.named_parameters()), params)

    def judge(tokens: Any, places: Any, labels: Any, counts: Any) -> list[float]:
        """Right guesses, loss and number of the guesses in sequences that count."""
        tokens, places, labels = map(paddle.to_tensor, (tokens, places, labels))
        scores, labels = net(tokens, places), labels.astype("int64")
        each = paddle.to_tensor(counts.astype("float32"))[:, None] * paddle.ones(labels.shape)
        correct = (scores.argmax(2) == labels).astype("float32")
        loss = cross_entropy(scores, labels, reduction="none").reshape(labels.shape)
        return [float((correct * each).sum()), float((loss * each).sum()), float(each.sum())]

    def evaluate() -> dict[str, float]:
        correct, loss, count = loop.sums(judge, ((*guesses, counts) for guesses, counts in text.evaluation()))
        return {"mlm_accuracy": correct / count, "loss": loss / count}

    loop = lib.PaddleLoop(
        config, ranks, net, optimizer, steps=length.steps, steps_per_epoch=text.steps_per_epoch,
        batches=text.training, evaluate=None if text.synthetic else evaluate, eval_every=length.eval_every,
        eval_from=length.eval_from, target=Target("mlm_accuracy", "up", params["target_mlm_accuracy"]),
    )  # fmt: skip
    for step in loop:
        tokens, places, labels = map(paddle.to_tensor, loop.batch())
        for weight in net.parameters():
            weight.clear_gradient(False)
        scores = net(tokens, places)
        loss = cross_entropy(scores.flatten(0, 1), labels.flatten().astype("int64"))
        loss.backward()
        ranks.average(net.parameters())
        optimizer.step(learning_rate(peak_lr, step, params["max_steps"], length.warmup, "linear"))
        loop.done(len(tokens), loss)
    loop.finish(lambda: shared.flops(text.rows, text.guesses, params))


if __name__ == "__main__":
    trainmark_job.run(main)
