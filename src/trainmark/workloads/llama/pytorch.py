"""Trains Llama, of any size, on text; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job
from trainmark_recipe import CAUSAL

if TYPE_CHECKING:
    from torch import nn

DEFAULTS = {
    **CAUSAL,
    "batch": 1,
    "context": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 32,
    "width": 4096,
    "inner": 11008,
    "rope_base": 10000.0,
    "lr": 0.0003,
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
