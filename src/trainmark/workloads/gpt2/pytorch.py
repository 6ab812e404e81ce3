"""Trains GPT-2, of any size, on text; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job

if TYPE_CHECKING:
    from torch import nn

DEFAULTS = {
    "batch": 8,
    "context": 1024,
    "layers": 12,
    "heads": 12,
    "width": 768,
    "dropout": 0.0,
    "vocabulary": 0,
    "tokenizer": "characters",
    "steps": 0,
    "epochs": 1,
    "lr": 0.0006,
    "beta1": 0.9,
    "beta2": 0.95,
    "weight_decay": 0.1,
    "warmup_steps": 0,
    "schedule": "cosine",
    "lr_floor": 0.1,
    "clip": 1.0,
    "accumulate": 1,
    "dtype": "fp32",
    "parallel": "ddp",
    "recompute": False,
    "compile": False,
    "eval_every": 0,
    "eval_windows": 256,
    "target_loss": 2.4,
    "stop_at_target": True,
    "checkpoint_every": 0,
}


def main() -> None:
    config = trainmark_job.begin("tokens", DEFAULTS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_lm
    from model import GPT2

    def build(vocabulary: int) -> nn.Module:
        shape = {name: params[name] for name in ("context", "layers", "heads", "width", "dropout", "recompute")}
        return GPT2(vocabulary, **shape)

    trainmark_lm.train(config, "gpt2", build)


if __name__ == "__main__":
    trainmark_job.run(main)
