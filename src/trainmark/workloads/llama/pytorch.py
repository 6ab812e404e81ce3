"""Trains Llama, of any size, on text; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job

if TYPE_CHECKING:
    from torch import nn

DEFAULTS = {
    "batch": 1,
    "context": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 32,
    "width": 4096,
    "inner": 11008,
    "rope_base": 10000.0,
    "vocabulary": 0,
    "tokenizer": "characters",
    "steps": 0,
    "epochs": 1,
    "lr": 0.0003,
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


SHAPE = ("context", "layers", "heads", "kv_heads", "width", "inner", "rope_base", "recompute")


def main() -> None:
    config = trainmark_job.begin("tokens", DEFAULTS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_lm
    from model import Llama

    def build(vocabulary: int) -> nn.Module:
        shape = {name: params[name] for name in SHAPE}
        return Llama(vocabulary, **shape)

    trainmark_lm.train(config, "llama", build)


if __name__ == "__main__":
    trainmark_job.run(main)
