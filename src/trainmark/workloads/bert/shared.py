"""BERT as all frameworks train it: parameters, which are FlagPerf's and count samples, and first weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from trainmark_weights import Weight

PARAMETERS = {
    "train_batch_size": 12, "eval_batch_size": 12, "gradient_accumulation_steps": 1, "max_seq_length": 512,
    "vocabulary": 0, "tokenizer": "characters", "mask_token": -1, "masked_share": 0.15,
    "layers": 24, "heads": 16, "width": 1024, "inner": 4096, "dropout": 0.1,
    "optimizer": "lamb", "learning_rate": 0.0001, "weight_decay_rate": 0.01, "opt_lamb_beta_1": 0.9,
    "opt_lamb_beta_2": 0.999, "clip": 1.0,
    "max_steps": 30000, "max_samples_termination": 4500000, "warmup_proportion": 0.0, "warmup_steps": 2000,
    "dtype": "fp32", "recompute": False, "compile": False,
    "eval_interval_samples": 150000, "eval_iter_start_samples": 150000, "num_eval_examples": 10000,
    "target_mlm_accuracy": 0.71, "stop_at_target": True, "checkpoint_every": 0,
}  # fmt: skip
# Of the normalisations; the first weights are drawn with this standard deviation.
EPSILON = 1e-12
FIRST_STD = 0.02


class Steps(NamedTuple):
    """How long BERT is trained."""

    steps: int
    warmup: int
    eval_every: int
    eval_from: int


def steps(params: Mapping[str, Any], world: int) -> Steps:
    """FlagPerf's parameters, which count samples, as steps."""
    per_step = params["train_batch_size"] * params["gradient_accumulation_steps"] * world
    return Steps(
        steps=min(params["max_steps"], math.ceil(params["max_samples_termination"] / per_step)),
        warmup=params["warmup_steps"] or int(params["max_steps"] * params["warmup_proportion"]),
        eval_every=max(1, params["eval_interval_samples"] // per_step),
        eval_from=params["eval_iter_start_samples"] // per_step,
    )


def first_weights(rows: int, params: Mapping[str, Any]) -> Iterator[Weight]:
    """Small random weights; biases begin at zero. `rows` is how many tokens the model knows."""
    from trainmark_weights import Weight, constant, normalisation

    width, inner = params["width"], params["inner"]

    def dense(name: str, outputs: int, inputs: int) -> tuple[Weight, Weight]:
        return Weight(f"{name}.weight", (outputs, inputs), "normal", FIRST_STD), constant(f"{name}.bias", outputs, 0.0)

    for name, count in (("tokens", rows), ("positions", params["max_seq_length"]), ("segments", 2)):
        yield Weight(f"{name}.weight", (count, width), "normal", FIRST_STD)
    yield from normalisation("norm", width)
    for number in range(params["layers"]):
        block = f"blocks.{number}"
        yield from dense(f"{block}.attention.inward", 3 * width, width)
        yield from dense(f"{block}.attention.outward", width, width)
        yield from normalisation(f"{block}.norm1", width)
        yield from dense(f"{block}.dense.inward", inner, width)
        yield from dense(f"{block}.dense.outward", width, inner)
        yield from normalisation(f"{block}.norm2", width)
    yield from dense("guess", width, width)
    yield from normalisation("guess_norm", width)
    yield constant("bias", rows, 0.0)


def flops(rows: int, guesses: int, params: Mapping[str, Any]) -> float:
    """To train on one sequence, forward and backward; looking up embeddings is free."""
    length, width, inner = params["max_seq_length"], params["width"], params["inner"]
    layer = length * (4 * width * width + 2 * width * inner) + 2 * length * length * width
    return 6.0 * (params["layers"] * layer + guesses * width * (width + rows))
