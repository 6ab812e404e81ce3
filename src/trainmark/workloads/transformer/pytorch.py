"""Trains a Transformer, of any size, to translate; see workload.yaml."""

from __future__ import annotations

import trainmark_job

DEFAULTS = {
    "batch": 64,
    "context": 128,
    "layers": 6,
    "heads": 8,
    "width": 512,
    "inner": 2048,
    "dropout": 0.1,
    "steps": 0,
    "epochs": 20,
    "lr": 0.0007,
    "beta1": 0.9,
    "beta2": 0.98,
    "weight_decay": 0.01,
    "warmup_steps": 4000,
    "schedule": "cosine",
    "clip": 1.0,
    "label_smoothing": 0.1,
    "dtype": "fp32",
    "accumulate": 1,
    "compile": False,
    "eval_every": 0,
    "target_loss": 0.0,
    "stop_at_target": True,
    "checkpoint_every": 0,
}
NAMES = ("lr", "steps", "epochs", "warmup_steps", "schedule", "clip", "dtype", "accumulate", "compile", "eval_every")


def main() -> None:
    config = trainmark_job.begin("tokens", DEFAULTS)
    params = config["params"]

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_probe
    import trainmark_torch
    from pairs import open_pairs
    from task import Translate
    from trainmark_train import Recipe, Trainer

    train, test, kind = open_pairs(config["data"], params["context"])
    trainmark_probe.note("data", kind)
    print(f"data: {kind}, {len(train)} pairs", flush=True)
    place = trainmark_torch.join(config)
    recipe = Recipe(
        **{name: params[name] for name in (*NAMES, "stop_at_target", "checkpoint_every")}, target=params["target_loss"]
    )
    Trainer(config, place, Translate(train, test, place, params, config["seed"]), recipe).run()


if __name__ == "__main__":
    trainmark_job.run(main)
