"""Trains GLM, of any size, on text; see workload.yaml."""

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
    "layers": 40,
    "heads": 32,
    "kv_heads": 2,
    "width": 4096,
    "inner": 13696,
    "lr": 0.0003,
}


def main() -> None:
    config = trainmark_job.begin("tokens", DEFAULTS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_lm
    from trainmark_hub import Hub
    from trainmark_transformer import check_heads

    def build(vocabulary: int) -> nn.Module:
        check_heads(params["width"], params["heads"])
        return Hub(
            "Glm",
            params["recompute"],
            vocab_size=vocabulary,
            max_position_embeddings=params["context"],
            num_hidden_layers=params["layers"],
            num_attention_heads=params["heads"],
            num_key_value_heads=params["kv_heads"],
            head_dim=params["width"] // params["heads"],
            hidden_size=params["width"],
            intermediate_size=params["inner"],
            pad_token_id=None,
            eos_token_id=None,
        )

    trainmark_lm.train(config, "glm", build)


if __name__ == "__main__":
    trainmark_job.run(main)
