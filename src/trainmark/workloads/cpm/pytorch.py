"""Trains CPM, of any size, on text; see workload.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trainmark_job
from trainmark_recipe import CAUSAL

if TYPE_CHECKING:
    from torch import nn

DEFAULTS = {
    **CAUSAL,
    "batch": 1,
    "context": 1024,
    "layers": 32,
    "heads": 32,
    "width": 2560,
    "dropout": 0.0,
    "lr": 0.00015,
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
        # CPM is a GPT-2 with a vocabulary for Chinese.
        return Hub(
            "GPT2",
            params["recompute"],
            vocab_size=vocabulary,
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

    trainmark_lm.train(config, "cpm", build)


if __name__ == "__main__":
    trainmark_job.run(main)
