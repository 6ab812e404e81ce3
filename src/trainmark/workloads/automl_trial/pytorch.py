"""A worker of an AutoML experiment: one long-lived process per rank that trains one architecture after another."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import trainmark_job
import trainmark_probe as probe
from trainmark_job import InputError

# `home`: the folder that workers share; `ledger`: its URL; `until`: when the experiment is over, in Unix time.
DEFAULTS = {
    "slot": 0,
    "experiment": "",
    "start": "[]",
    "home": "",
    "ledger": "",
    "run": "",
    "until": 0.0,
    "carry": False,
}


def main() -> None:
    config = trainmark_job.begin("images", DEFAULTS)
    params = config["params"]
    if not params["experiment"]:
        raise InputError("this workload is a worker of an experiment: start one with `trainmark automl run`")
    try:
        import msgspec
        import optuna  # noqa: F401 - better missed here than later

        from trainmark.automl.experiment.config import Experiment
    except ImportError as error:
        raise InputError(
            f"{error}; a worker's Python needs trainmark with its search: pip install 'trainmark[automl]'"
        ) from None
    experiment = msgspec.json.decode(params["experiment"], type=Experiment)

    import pictures
    import trainmark_torch

    from trainmark.automl.experiment.config import image_of
    from trainmark.automl.ledger.files import TrialFiles
    from trainmark.automl.ledger.ledger import open_ledger

    image, training = image_of(experiment), experiment.training
    experiment = msgspec.structs.replace(experiment, image=image)
    home = Path(params["home"] or config["checkpoints"])
    wanted = pictures.Wanted(image.size, image.channels, image.classes, training.images, training.test_images)
    train, test, kind = pictures.open_data(config["data"], experiment.val_data, wanted, home / "index")
    place = trainmark_torch.join(config)
    owner = f"slot{params['slot']}"
    if place.rank == 0:
        _introduce(config, experiment, place, kind, len(train), len(test))
    files = TrialFiles(home)
    ledger = open_ledger(params["ledger"], params["run"], experiment.architectures) if place.rank == 0 else None
    probe.init_end()
    probe.train_start()

    import training as trainings

    def over() -> bool:
        return time.time() >= params["until"]

    trainer = trainings.Trainer(experiment, place, (train, test), ledger, files, over)
    if ledger is not None:
        from trainmark.automl.graph.graph_json import decode
        from trainmark.automl.search.generator import Generator

        start = [decode(text) for text in msgspec.json.decode(params["start"])]
        generator = Generator(experiment, start, ledger, files, owner, carry=params["carry"])
        _lead(experiment, place, ledger, files, generator, owner, trainer, over)
    else:
        _follow(place, trainer)
    probe.train_end()
    probe.finish()
    trainmark_torch.leave(place)


def _introduce(config: dict[str, Any], experiment: Any, place: Any, kind: str, train: int, test: int) -> None:
    """What rules are held against: said once, by the one who knows."""
    import torch

    memory = None
    if place.device.type == "cuda":
        memory = torch.cuda.get_device_properties(place.device).total_memory / 2**30
    probe.note(
        "automl_worker",
        {
            "slot": config["params"]["slot"],
            "device": place.device.type,
            "ranks": place.world,
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "memory_gib": memory,
            "dtype": experiment.training.dtype,
            "batch": experiment.training.batch,
            "data": kind,
            "train_images": train,
            "test_images": test,
            "pretrained": bool(experiment.weights),
            "wall": time.time(),
        },
    )


def _lead(
    experiment: Any, place: Any, ledger: Any, files: Any, generator: Any, owner: str, trainer: Any, over: Any
) -> None:
    import msgspec
    from assign import broadcast

    from trainmark.automl.experiment.worker import Assignment, Hooks, Outcome, TrialClient, work
    from trainmark.automl.ledger.ledger import Entry

    class TrainerHooks(Hooks):
        def prepare(self, given: Assignment) -> None:
            trainer.prepare(given)

        def save(self, number: int) -> None:
            trainer.save(number)

        def saved(self, number: int, entries: list[Entry]) -> None:
            """Now nobody needs to go on with it."""
            files.drop_checkpoint(number)
            files.prune_weights(_kept(experiment, entries))

    def led(given: Assignment) -> Outcome:
        broadcast(place, msgspec.json.encode(given))
        outcome: Outcome = trainer(given)
        return outcome

    work(TrialClient(experiment, ledger, generator, owner, TrainerHooks()), led, probe.note, over)
    broadcast(place, b"")


def _kept(experiment: Any, entries: list[Any]) -> set[int]:
    """Whose weights are worth keeping: the best, parents of what is to be trained, and what is in training."""
    values = {entry.number: entry.value for entry in entries if entry.value is not None}
    best = sorted(values, key=lambda one: -values[one])[: experiment.keep_weights]
    open_ones = [entry for entry in entries if not entry.ended]
    return {*best, *(entry.number for entry in open_ones), *(entry.parent for entry in open_ones)} - {None}


def _follow(place: Any, trainer: Any) -> None:
    """The other ranks do what the first one was given."""
    import msgspec
    from assign import broadcast

    from trainmark.automl.experiment.worker import Assignment

    while data := broadcast(place, b""):
        trainer(msgspec.json.decode(data, type=Assignment))


if __name__ == "__main__":
    trainmark_job.run(main)
