"""Trains a Transformer, of any size, to translate; see workload.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import trainmark_job

if TYPE_CHECKING:
    from pairs import Batch
    from torch import nn

PARAMETERS = {
    "batch": 64, "context": 128, "accumulate": 1,
    "layers": 6, "heads": 8, "width": 512, "inner": 2048, "dropout": 0.1,
    "lr": 0.0007, "beta1": 0.9, "beta2": 0.98, "weight_decay": 0.01, "clip": 1.0, "label_smoothing": 0.1,
    "steps": 0, "epochs": 20, "warmup_steps": 4000, "schedule": "cosine",
    "dtype": "fp32", "compile": False,
    "eval_every": 0, "target_loss": 0.0, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip


def main() -> None:
    config = trainmark_job.begin("tokens", PARAMETERS)
    params = config["params"]
    batch, context = params["batch"], params["context"]

    # Imported late, so that the time it takes is seen as initialisation.
    import numpy as np
    import torch
    import trainmark_probe as probe
    import trainmark_torch as lib
    from model import Transformer
    from pairs import KINDS, PADDING, Batch, open_pairs
    from torch.nn.functional import cross_entropy
    from trainmark_loop import Shards, Target, alive, learning_rate

    # Data: pairs of lines; each rank has its own share of each epoch's random order.
    train, test, kind = open_pairs(config["data"], context)
    probe.note("data", kind)
    print(f"data: {kind}, {len(train)} pairs", flush=True)
    ranks = lib.join(config)
    order = Shards(len(train), batch, ranks, config["seed"], params["accumulate"], "pairs")

    def to_device(given: Batch) -> Batch:
        return Batch(given.questions.to(ranks.device), given.answers.to(ranks.device), given.count)

    def held_out() -> Iterator[Batch]:
        mine = np.arange(ranks.rank, len(test), ranks.world)
        return (to_device(test.batch(mine[start : start + batch])) for start in range(0, len(mine), batch))

    # Model.
    def build() -> nn.Module:
        shape = ("context", "layers", "heads", "width", "inner", "dropout")
        return Transformer(KINDS, **{name: params[name] for name in shape})

    lib.check_memory(build, ranks)
    precision = lib.Precision(params["dtype"], ranks.device)
    torch.manual_seed(config["seed"])
    model = build().to(ranks.device)
    network = lib.share(model, ranks)
    if params["compile"]:
        model.compile()

    # Optimizer and schedule.
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    weights, betas = lib.decayed(model, params["weight_decay"]), (params["beta1"], params["beta2"])
    optimizer = torch.optim.AdamW(weights, lr=params["lr"], betas=betas, fused=lib.can_fuse(ranks))

    def evaluate() -> dict[str, float]:
        """The loss on held out lines, in nats per token, and the share of tokens that are right."""
        sums = torch.zeros(3, device=ranks.device)
        for questions, answers, count in alive(held_out()):
            scores, labels = model(questions, answers[:, :-1]), answers[:, 1:]
            loss = cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=PADDING, reduction="sum")
            correct = ((scores.argmax(-1) == labels) & (labels != PADDING)).sum()
            sums += torch.stack((loss, correct, torch.full_like(loss, count))).float()
        loss, correct, count = ranks.total(*sums.tolist())
        return {"loss": loss / count, "accuracy": correct / count}

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: (to_device(train.batch(order.indices(number))) for number in numbers),
        evaluate=evaluate if test else None, target=Target("loss", "down", params["target_loss"]),
        facts={"name": "transformer", "heads": params["heads"]},
    )  # fmt: skip
    for step in loop:
        now = learning_rate(params["lr"], step, steps, params["warmup_steps"], params["schedule"])
        lib.set_learning_rate(optimizer, now)
        if params["dropout"] > 0:
            loop.seed()
        optimizer.zero_grad(set_to_none=True)
        for questions, answers, count in loop.batches():
            with precision.autocast():
                scores, labels = network(questions, answers[:, :-1]), answers[:, 1:]
                loss = cross_entropy(
                    scores.flatten(0, 1),
                    labels.flatten(),
                    ignore_index=PADDING,
                    label_smoothing=params["label_smoothing"],
                )
            loop.backward(loss, samples=count)
        loop.update()
    # A sample is a token of the answer.
    loop.finish(lambda: lib.training_flops(build, lambda: (torch.zeros(1, context).long(),) * 2) / context)


if __name__ == "__main__":
    trainmark_job.run(main)
