"""Trains DLRM to tell clicks; see workload.yaml."""

from __future__ import annotations

import trainmark_job

DEFAULTS = {
    "batch": 2048,
    "steps": 0,
    "epochs": 1,
    "rows": 100000,
    "width": 64,
    "bottom": "512,256",
    "top": "512,512,256",
    "lr": 0.01,
    "warmup_steps": 0,
    "schedule": "constant",
    "dtype": "fp32",
    "accumulate": 1,
    "compile": False,
    "eval_every": 0,
    "target_auc": 0.8,
    "stop_at_target": True,
    "checkpoint_every": 0,
}


def main() -> None:
    config = trainmark_job.begin("samples", DEFAULTS)
    params = config["params"]
    for name in ("bottom", "top"):
        if not all(size.isdigit() and int(size) for size in params[name].split(",")):
            raise trainmark_job.InputError(f"{name} is {params[name]!r}, wanted are sizes of layers, as 512,256")

    # Imported late, so that the time it takes is seen as initialisation.
    import trainmark_probe
    import trainmark_torch
    from clicks import open_clicks
    from task import Recommend
    from trainmark_train import Recipe, Trainer

    train, test, kind = open_clicks(config["data"])
    trainmark_probe.note("data", kind)
    print(f"data: {kind}, {len(train)} samples", flush=True)
    place = trainmark_torch.join(config)
    names = ("lr", "steps", "epochs", "warmup_steps", "schedule", "dtype", "accumulate", "compile", "eval_every")
    recipe = Recipe(
        **{name: params[name] for name in (*names, "stop_at_target", "checkpoint_every")}, target=params["target_auc"]
    )
    Trainer(config, place, Recommend(train, test, place, params, config["seed"]), recipe).run()


if __name__ == "__main__":
    trainmark_job.run(main)
