"""Trains DLRM to predict clicks; see workload.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import trainmark_job

if TYPE_CHECKING:
    from clicks import Batch
    from torch import nn

PARAMETERS = {
    "batch": 2048, "accumulate": 1,
    "rows": 100000, "width": 64, "bottom": "512,256", "top": "512,512,256",
    "lr": 0.01,
    "steps": 0, "epochs": 1, "warmup_steps": 0, "schedule": "constant",
    "dtype": "fp32", "compile": False,
    "eval_every": 0, "target_auc": 0.8, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip
# Scores are sorted into so many bins: ranks add them up, and the area is exact to a thousandth.
BINS = 2000
# Different synthetic batches, all on the device from the start.
SYNTHETIC_BATCHES = 128


def main() -> None:
    config = trainmark_job.begin("samples", PARAMETERS)
    params = config["params"]
    batch, rows = params["batch"], params["rows"]
    for name in ("bottom", "top"):
        if not all(size.isdigit() and int(size) for size in params[name].split(",")):
            raise trainmark_job.InputError(f"{name} is {params[name]!r}, wanted are sizes of layers, as 512,256")

    # Imported late, so that the time it takes is seen as initialisation.
    import numpy as np
    import torch
    import trainmark_probe as probe
    import trainmark_torch as lib
    from clicks import NUMBERS, TABLES, Batch, Synthetic, open_clicks
    from model import DLRM
    from torch.nn.functional import binary_cross_entropy_with_logits
    from trainmark_loop import Shards, Target, alive, learning_rate

    # Data: click logs; each rank has its own share of each epoch's random order.
    train, test, kind = open_clicks(config["data"])
    probe.note("data", kind)
    print(f"data: {kind}, {len(train)} samples", flush=True)
    ranks = lib.join(config)
    order = Shards(len(train), batch, ranks, config["seed"], params["accumulate"], "samples")

    def to_device(given: Batch) -> Batch:
        return Batch(*(part.to(ranks.device, non_blocking=True) for part in given))

    def batches(numbers: range) -> Iterator[Batch]:
        if isinstance(train, Synthetic):
            ready = [to_device(train.batch(order.indices(number), rows)) for number in range(SYNTHETIC_BATCHES)]
            yield from (ready[number % SYNTHETIC_BATCHES] for number in numbers)
        else:
            yield from (to_device(train.batch(order.indices(number), rows)) for number in numbers)

    def held_out() -> Iterator[Batch]:
        mine = np.arange(ranks.rank, len(test), ranks.world)
        return (to_device(test.batch(mine[start : start + batch], rows)) for start in range(0, len(mine), batch))

    # Model.
    def build() -> nn.Module:
        bottom, top = ([int(size) for size in params[name].split(",")] for name in ("bottom", "top"))
        return DLRM(NUMBERS, TABLES, rows, params["width"], bottom, top)

    lib.check_memory(build, ranks, moments=1)
    precision = lib.Precision(params["dtype"], ranks.device)
    torch.manual_seed(config["seed"])
    model = build().to(ranks.device)
    network = lib.share(model, ranks)
    if params["compile"]:
        model.compile()

    # Optimizer and schedule.
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    optimizer = torch.optim.Adagrad(model.parameters(), lr=params["lr"], eps=1e-8)

    def evaluate() -> dict[str, float]:
        """The area under the curve of true and false alarms, and the loss, on held out samples."""
        sums = torch.zeros(1 + 2 * BINS, device=ranks.device)
        for numbers, categories, labels in alive(held_out()):
            scores = model(numbers, categories).float()
            loss = binary_cross_entropy_with_logits(scores, labels, reduction="sum")
            bins = (scores.sigmoid() * (BINS - 1)).long()
            counts = [torch.bincount(bins, weight, BINS) for weight in (labels, 1 - labels)]
            sums += torch.cat((loss[None], *counts))
        loss, *counts = ranks.total(*sums.tolist())
        clicks, others = np.array(counts[:BINS]), np.array(counts[BINS:])
        return {"auc": auc(clicks, others), "loss": loss / float(clicks.sum() + others.sum())}

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=batches, evaluate=evaluate if test else None, target=Target("auc", "up", params["target_auc"]),
        facts={"name": "dlrm"},
    )  # fmt: skip
    for step in loop:
        now = learning_rate(params["lr"], step, steps, params["warmup_steps"], params["schedule"])
        lib.set_learning_rate(optimizer, now)
        optimizer.zero_grad(set_to_none=True)
        for numbers, categories, labels in loop.batches():
            with precision.autocast():
                loss = binary_cross_entropy_with_logits(network(numbers, categories), labels)
            loop.backward(loss, samples=len(labels))
        loop.update()
    loop.finish(lambda: lib.training_flops(build, lambda: (torch.zeros(1, NUMBERS), torch.zeros(1, TABLES).long())))


def auc(clicks: Any, others: Any) -> float:
    """The chance that a click has the higher score than another sample; equal ones count half. 0.5 without pairs."""
    import numpy as np

    pairs = clicks.sum() * others.sum()
    below = np.concatenate(([0.0], np.cumsum(others)[:-1]))
    return float((clicks * (below + others / 2)).sum() / pairs) if pairs else 0.5


if __name__ == "__main__":
    trainmark_job.run(main)
