"""Trains CPM, of any size, on text; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job

if TYPE_CHECKING:
    from torch import nn

PARAMETERS = {
    "batch": 1, "context": 1024, "vocabulary": 0, "tokenizer": "characters", "accumulate": 1,
    "layers": 32, "heads": 32, "width": 2560, "dropout": 0.0,
    "lr": 0.00015, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0.1, "clip": 1.0,
    "steps": 0, "epochs": 1, "warmup_steps": 0, "schedule": "cosine", "lr_floor": 0.1,
    "dtype": "fp32", "parallel": "ddp", "recompute": False, "compile": False,
    "eval_every": 0, "eval_windows": 256, "target_loss": 2.4, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip


def main() -> None:
    config = trainmark_job.begin("tokens", PARAMETERS)
    params = config["params"]
    batch, context = params["batch"], params["context"]

    # Imported late, so that the time it takes is seen as initialisation.
    import torch
    import trainmark_text
    import trainmark_torch as lib
    from torch.nn.functional import cross_entropy
    from trainmark_layers import Scores, check_heads, held_out_loss, open_transformers
    from trainmark_loop import Target, learning_rate

    # Data: windows of the context and the token that follows; each rank has its own share of each epoch's random order.
    corpus = trainmark_text.open_corpus(config)
    ranks = lib.join(config)
    windows = trainmark_text.Windows(corpus, context + 1, ranks, config["seed"], ranks.tensor)
    order = windows.shards(batch, params["accumulate"])

    # Model.
    transformers = open_transformers()

    def build() -> nn.Module:
        check_heads(params["width"], params["heads"])
        # CPM is a GPT-2 with a vocabulary for Chinese.
        shape = transformers.GPT2Config(
            use_cache=False,
            vocab_size=corpus.kinds,
            n_positions=params["context"],
            n_layer=params["layers"],
            n_head=params["heads"],
            n_embd=params["width"],
            resid_pdrop=params["dropout"],
            embd_pdrop=params["dropout"],
            attn_pdrop=params["dropout"],
            bos_token_id=None,
            eos_token_id=None,
        )
        return Scores(transformers.GPT2LMHeadModel(shape), params["recompute"])

    precision = lib.Precision(params["dtype"], ranks.device)
    lib.check_memory(build, ranks, params["parallel"])
    torch.manual_seed(config["seed"])
    model = build().to(ranks.device)
    network = lib.share(model, ranks, params["parallel"], precision)
    if params["compile"]:
        model.compile()

    # Optimizer and schedule.
    steps = params["steps"] or params["epochs"] * order.steps_per_epoch
    weights, betas = lib.decayed(model, params["weight_decay"]), (params["beta1"], params["beta2"])
    optimizer = torch.optim.AdamW(weights, lr=params["lr"], betas=betas, fused=lib.can_fuse(ranks))

    def evaluate() -> dict[str, float]:
        return held_out_loss(model, windows.evaluation(params["eval_windows"], batch), ranks)

    loop = lib.TorchLoop(
        config, ranks, network, optimizer, precision, steps=steps, steps_per_epoch=order.steps_per_epoch,
        batches=lambda numbers: windows.training(order, numbers, batch),
        evaluate=None if corpus.synthetic else evaluate, target=Target("loss", "down", params["target_loss"]),
        facts=trainmark_text.facts("cpm", corpus, params["heads"]),
    )  # fmt: skip
    for step in loop:
        now = learning_rate(params["lr"], step, steps, params["warmup_steps"], params["schedule"], params["lr_floor"])
        lib.set_learning_rate(optimizer, now)
        if params["dropout"] > 0:
            loop.seed()
        optimizer.zero_grad(set_to_none=True)
        for tokens in loop.batches():
            with precision.autocast():
                scores = network(tokens[:, :-1])
                loss = cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
            loop.backward(loss, samples=batch * context)
        loop.update()
    # A sample is a token.
    loop.finish(lambda: lib.training_flops(build, lambda: (torch.zeros(1, context).long(),)) / context)


if __name__ == "__main__":
    trainmark_job.run(main)
