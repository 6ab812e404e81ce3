"""Causal language models that the package `transformers` knows, from a configuration, with random weights."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn
from trainmark_job import InputError

# Nothing is fetched: only the definitions of models are used.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


class Hub(nn.Module):
    """Tokens (N, T) to scores of the token that follows each (N, T, vocabulary)."""

    def __init__(self, kind: str, recompute: bool, **shape: Any) -> None:
        super().__init__()
        os.environ.update(OFFLINE)
        try:
            import transformers
        except ImportError:
            raise InputError("this workload needs the package transformers: pip install 'trainmark[hub]'") from None
        config = getattr(transformers, f"{kind}Config")(use_cache=False, **shape)
        self.inner = getattr(transformers, f"{kind}{HEADS[kind]}")(config)
        if recompute:
            self.inner.gradient_checkpointing_enable()

    def forward(self, tokens: Tensor) -> Tensor:
        # Without a mask the package looks at values, of which there are none when operations are only counted.
        length = tokens.shape[1]
        mask = torch.ones(1, 1, length, length, dtype=torch.bool) if tokens.is_meta else None
        scores: Tensor = self.inner(input_ids=tokens, attention_mask=mask).logits
        return scores


HEADS = {"Glm": "ForCausalLM", "GPT2": "LMHeadModel"}
