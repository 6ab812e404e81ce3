"""The worker's process: rank 0 speaks with the ledger and hands each assignment to the other ranks of the worker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist
import trainmark_probe as probe
import trainmark_torch
from samples import Samples, open_data, samples_of
from training import Trainer
from trainmark_torch import Ranks

from trainmark.automl.experiment.clock import Clock
from trainmark.automl.experiment.config import Experiment
from trainmark.automl.experiment.worker import Assignment, Hooks, Outcome, TrialClient, work
from trainmark.automl.graph.graph_json import decode
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Entry, open_ledger
from trainmark.automl.search.generator import Generator


def run(config: dict[str, Any]) -> None:
    params = config["params"]
    experiment = msgspec.json.decode(params["experiment"], type=Experiment)
    home = Path(params["home"] or config["checkpoints"])
    data = open_data(experiment, config, home)
    ranks = trainmark_torch.join(config)
    samples = samples_of(experiment, data, ranks)
    files = TrialFiles(home)
    ledger = open_ledger(params["ledger"], params["run"], experiment.architectures) if ranks.rank == 0 else None
    if ledger is not None:
        probe.note("automl_worker", _facts(params["slot"], experiment, ranks, samples))
    probe.init_end()
    probe.train_start()
    owner = f"slot{params['slot']}"
    clock = Clock(experiment, ledger, params) if ledger is not None else None
    trainer = Trainer(experiment, ranks, samples, ledger, files, clock, owner)
    if ledger is None or clock is None:
        while given := _broadcast(ranks, b""):
            trainer(msgspec.json.decode(given, type=Assignment))
    else:
        start = [decode(text) for text in msgspec.json.decode(params["start"])]
        generator = Generator(experiment, start, ledger, files, owner, carry=params["carry"])
        client = TrialClient(experiment, ledger, generator, owner, _TrainerHooks(experiment, trainer, files))

        def train_on_all_ranks(given: Assignment) -> Outcome:
            if given.entry.parent is not None:
                trainer.save(given.entry.parent)
            _broadcast(ranks, msgspec.json.encode(given))
            return trainer(given)

        work(client, train_on_all_ranks, probe.note, clock.over)
        _broadcast(ranks, b"")
    probe.train_end()
    probe.finish()
    trainmark_torch.leave(ranks)


def _facts(slot: int, experiment: Experiment, ranks: Ranks, samples: Samples) -> dict[str, Any]:
    """What the rules of the experiment are held against."""
    memory, name = None, ""
    if ranks.device.type == "cuda":
        found = torch.cuda.get_device_properties(ranks.device)
        memory, name = found.total_memory / 2**30, found.name
    return {
        "slot": slot,
        "device": ranks.device.type,
        "device_name": name,
        "ranks": ranks.world,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "memory_gib": memory,
        "dtype": experiment.training.dtype,
        "batch": experiment.training.batch,
        "data": samples.data,
        "train_images": samples.train,
        "test_images": samples.test,
        "pretrained": bool(experiment.weights),
        "wall": time.time(),
    }


class _TrainerHooks(Hooks):
    """What the trainer does in the client's thread, and which files stay."""

    def __init__(self, experiment: Experiment, trainer: Trainer, files: TrialFiles) -> None:
        self._experiment, self._trainer, self._files = experiment, trainer, files

    def prepare(self, given: Assignment) -> None:
        self._trainer.prepare(given)

    def save(self, number: int) -> None:
        self._trainer.save(number)

    def saved(self, number: int, entries: list[Entry]) -> None:
        # Nobody needs to go on with it now.
        self._files.drop_checkpoint(number)
        self._files.prune_weights(_useful_weights(self._experiment, entries))


def _useful_weights(experiment: Experiment, entries: list[Entry]) -> set[int]:
    """Trials whose weights stay: the best, those in training, and the parents of these."""
    values = {entry.number: entry.value for entry in entries if entry.value is not None}
    best = sorted(values, key=lambda number: -values[number])[: experiment.keep_weights]
    unended = [entry for entry in entries if not entry.ended]
    parents = (entry.parent for entry in unended if entry.parent is not None)
    return {*best, *(entry.number for entry in unended), *parents}


def _broadcast(ranks: Ranks, data: bytes) -> bytes:
    """The first rank's bytes, on every rank."""
    if ranks.world == 1:
        return data
    length = torch.tensor([len(data)], device=ranks.device)
    dist.broadcast(length, 0)
    content = torch.zeros(int(length), dtype=torch.uint8, device=ranks.device)
    if ranks.rank == 0 and data:
        content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    if int(length):
        dist.broadcast(content, 0)
    return bytes(content.cpu().tolist())
