"""Trains BERT, of any size, to guess masked tokens; see workload.yaml. Parameters are named as in FlagPerf."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import trainmark_job

if TYPE_CHECKING:
    from torch import nn
    from trainmark_train import Recipe

DEFAULTS = {
    "train_batch_size": 12,
    "eval_batch_size": 12,
    "gradient_accumulation_steps": 1,
    "max_seq_length": 512,
    "layers": 24,
    "heads": 16,
    "width": 1024,
    "inner": 4096,
    "dropout": 0.1,
    "vocabulary": 0,
    "tokenizer": "characters",
    "mask_token": -1,
    "masked_share": 0.15,
    "max_steps": 30000,
    "max_samples_termination": 4500000,
    "optimizer": "lamb",
    "learning_rate": 0.0001,
    "weight_decay_rate": 0.01,
    "opt_lamb_beta_1": 0.9,
    "opt_lamb_beta_2": 0.999,
    "warmup_proportion": 0.0,
    "warmup_steps": 2000,
    "clip": 1.0,
    "dtype": "fp32",
    "recompute": False,
    "compile": False,
    "eval_interval_samples": 150000,
    "eval_iter_start_samples": 150000,
    "num_eval_examples": 10000,
    "target_mlm_accuracy": 0.71,
    "stop_at_target": True,
    "checkpoint_every": 0,
}
SHAPE = ("layers", "heads", "width", "inner", "dropout", "recompute")


def main() -> None:
    config = trainmark_job.begin("sequences", DEFAULTS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_lm
    import trainmark_torch
    from model import Bert
    from trainmark_masked import Masked
    from trainmark_train import Trainer

    def build(vocabulary: int) -> nn.Module:
        return Bert(vocabulary, params["max_seq_length"], **{name: params[name] for name in SHAPE})

    corpus = trainmark_lm.open_corpus(config)
    place = trainmark_torch.join(config)
    task = Masked(build, corpus, place, params, config["seed"])
    Trainer(config, place, task, recipe(params, place.world)).run()


def recipe(params: dict[str, Any], world: int) -> Recipe:
    """FlagPerf's parameters, which count samples, as steps."""
    from trainmark_train import Recipe

    per_step = params["train_batch_size"] * params["gradient_accumulation_steps"] * world
    return Recipe(
        lr=params["learning_rate"],
        steps=min(params["max_steps"], math.ceil(params["max_samples_termination"] / per_step)),
        warmup_steps=params["warmup_steps"] or int(params["max_steps"] * params["warmup_proportion"]),
        schedule="linear",
        decay_steps=params["max_steps"],
        dtype=params["dtype"],
        accumulate=params["gradient_accumulation_steps"],
        compile=params["compile"],
        clip=params["clip"],
        eval_every=max(1, params["eval_interval_samples"] // per_step),
        eval_from=params["eval_iter_start_samples"] // per_step,
        target=params["target_mlm_accuracy"],
        stop_at_target=params["stop_at_target"],
        checkpoint_every=params["checkpoint_every"],
    )


if __name__ == "__main__":
    trainmark_job.run(main)
