"""How the causal language models are trained unless told otherwise; imports no framework."""

from __future__ import annotations

from typing import Any

CAUSAL: dict[str, Any] = {
    "vocabulary": 0,
    "tokenizer": "characters",
    "steps": 0,
    "epochs": 1,
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
