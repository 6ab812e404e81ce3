"""Trains BERT, of any size, to guess masked tokens; see workload.yaml. Parameters are named as in FlagPerf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shared
import trainmark_job
from shared import PARAMETERS

if TYPE_CHECKING:
    from torch import nn


def main() -> None:
    config = trainmark_job.begin("sequences", PARAMETERS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import torch
    import trainmark_text
    import trainmark_torch as lib
    from lamb import Lamb
    from masked_text import MaskedText
    from model import Bert
    from torch.nn.functional import cross_entropy
    from trainmark_loop import Target, alive, learning_rate
    from trainmark_text import IGNORED

    # Data: sequences in which some tokens are hidden.
    corpus = trainmark_text.open_corpus(config)
    ranks = lib.join(config)
    text = MaskedText(corpus, ranks, params, config["seed"], ranks.tensor)

    # Model, with the first weights that all frameworks begin with.
    def build() -> nn.Module:
        shape = ("layers", "heads", "width", "inner", "dropout", "recompute")
        return Bert(text.rows, params["max_seq_length"], **{name: params[name] for name in shape})

    lib.check_memory(build, ranks)
    precision = lib.Precision(params["dtype"], ranks.device)
    torch.manual_seed(config["seed"])
    model = build()
    lib.set_first_weights(model, tuple(shared.first_weights(text.rows, params)))
    model.to(ranks.device)
    network = lib.share(model, ranks)
    if params["compile"]:
        model.compile()

    # Optimizer and schedule.
    length = shared.steps(params, ranks.world)
    weights = lib.decayed(model, params["weight_decay_rate"])
    peak_lr, betas = params["learning_rate"], (params["opt_lamb_beta_1"], params["opt_lamb_beta_2"])
    if params["optimizer"] == "adamw":
        optimizer = torch.optim.AdamW(weights, lr=peak_lr, betas=betas, fused=lib.can_fuse(ranks))
    else:
        optimizer = Lamb(weights, peak_lr, betas)

    def evaluate() -> dict[str, float]:
        """The share of hidden tokens that are guessed right, and the loss, on held out text."""
        sums = torch.zeros(3, device=ranks.device)
        for (tokens, places, hidden), counts in alive(text.evaluation()):
            scores = model(tokens, places).flatten(0, 1)
            labels = hidden.masked_fill(~ranks.tensor(counts)[:, None], IGNORED).flatten()
            loss = cross_entropy(scores, labels, reduction="sum")
            correct = (scores.argmax(1) == labels).sum()
            sums += torch.stack((correct, loss, (labels != IGNORED).sum())).float()
        correct, loss, count = ranks.total(*sums.tolist())
        return {"mlm_accuracy": correct / count, "loss": loss / count}

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=length.steps, steps_per_epoch=text.steps_per_epoch,
        batches=text.training, accumulate=params["gradient_accumulation_steps"],
        evaluate=None if corpus.synthetic else evaluate, eval_every=length.eval_every, eval_from=length.eval_from,
        target=Target("mlm_accuracy", "up", params["target_mlm_accuracy"]), facts=text.facts,
    )  # fmt: skip
    for step in loop:
        lib.set_learning_rate(optimizer, learning_rate(peak_lr, step, params["max_steps"], length.warmup, "linear"))
        if params["dropout"] > 0:
            loop.seed()
        optimizer.zero_grad(set_to_none=True)
        for tokens, places, labels in loop.batches():
            with precision.autocast():
                loss = cross_entropy(network(tokens, places).flatten(0, 1), labels.flatten())
            loop.backward(loss, samples=len(tokens))
        loop.update()
    lengths = params["max_seq_length"], text.guesses
    loop.finish(lambda: lib.training_flops(build, lambda: tuple(torch.zeros(1, n).long() for n in lengths)))


if __name__ == "__main__":
    trainmark_job.run(main)
