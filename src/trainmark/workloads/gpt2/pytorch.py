"""Trains GPT-2, of any size, on text; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job
from trainmark_recipe import CAUSAL

if TYPE_CHECKING:
    from torch import nn

DEFAULTS = {
    **CAUSAL,
    "batch": 8,
    "context": 1024,
    "layers": 12,
    "heads": 12,
    "width": 768,
    "dropout": 0.0,
    "lr": 0.0006,
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
