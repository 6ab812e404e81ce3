"""Trains the architectures of an experiment on this worker's devices, epoch by epoch, each on record and resumable."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import msgspec
import torch
import torch.nn.functional as functional
import trainmark_probe as probe
import trainmark_torch
from preparation import Preparation, Prepared, Trial
from samples import Samples, flat
from torch import nn
from trainmark_loop import Shards
from trainmark_torch import Ranks

from trainmark.automl.experiment import schedule
from trainmark.automl.experiment.clock import Clock
from trainmark.automl.experiment.config import Experiment, classes_of
from trainmark.automl.experiment.rules import IMAGENET
from trainmark.automl.experiment.score import quality
from trainmark.automl.experiment.worker import Assignment, Outcome
from trainmark.automl.graph import flops
from trainmark.automl.graph.flops import Flops
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.graph_json import encode
from trainmark.automl.graph.moves import in_words, tuned
from trainmark.automl.ledger.files import TrialFiles
from trainmark.automl.ledger.ledger import Ledger
from trainmark.automl.search import hpo
from trainmark.automl.search.hpo import Values
from trainmark.i18n.speaker import say
from trainmark.reasons import Reason, reason

# Ranks that train together agree this often on whether the time is up; one alone looks at every step.
AGREE_STEPS = 10


class TimeUp(Exception):
    """The experiment is over, and so is this training."""


class NotFinite(RuntimeError):
    """The loss is no number any more."""


class Trainer:
    def __init__(
        self,
        experiment: Experiment,
        ranks: Ranks,
        samples: Samples,
        ledger: Ledger | None,
        files: TrialFiles,
        clock: Clock | None,
        owner: str,
    ) -> None:
        """`ledger`, `clock`: of the first rank, which speaks for all; `owner`: the worker's name in the ledger."""
        self._experiment, self._ranks, self._ledger, self._files = experiment, ranks, ledger, files
        self._clock, self._owner = clock, owner
        self._samples = samples
        self._precision = trainmark_torch.Precision(experiment.training.dtype, ranks.device)
        self._layout = torch.channels_last if experiment.training.channels_last else torch.contiguous_format
        self._classes = classes_of(experiment)
        self._preparation = Preparation(experiment, files)
        # Of trials that ended, what is not yet saved: the graph that was trained, and its weights if there are.
        self._unsaved: dict[int, tuple[Graph, dict[str, Any] | None]] = {}
        self._saving = threading.Lock()
        # Epochs that the weights of own trials have seen: of the last one the ledger does not know it yet.
        self._seen: dict[int, int] = {}
        # Which trial's work ended last, and when: for the gap between two trials.
        self._worked: tuple[int, float] | None = None

    # ---- beside training, in another thread

    def prepare(self, given: Assignment) -> None:
        """This is trained next."""
        self._preparation.prepare(given)

    def save(self, number: int) -> None:
        """Of a trial that has ended: before the ledger knows of it, since children need what it left. The thread that
        trains calls it, too, where the next trial is a child of the last."""
        with self._saving:
            if number in self._unsaved:
                graph, weights = self._unsaved[number]
                self._files.put_graph(graph)
                if weights is not None:
                    self._files.put_weights(number, weights)
                del self._unsaved[number]

    # ---- a trial

    def __call__(self, given: Assignment) -> Outcome:
        experiment, trial = self._experiment, self._preparation.trial(given)
        for epoch in trial.epochs:
            # The worker that did them may have been lost before they were on record; each counts once.
            self._note("automl_epoch", epoch)
        moves = ", ".join(say(in_words(move)) for move in given.entry.moves) or "start model"
        parent = f" of trial {given.entry.parent}" if given.entry.parent is not None else ""
        self._say(f"trial {given.entry.number} begins: {moves}{parent}")
        pruned, why = False, None
        while hpo.wants_more(experiment.hpo, trial.round, trial.tried):
            try:
                pruned = self._train_once(trial, *self._preparation.of(trial, given))
            except TimeUp:
                break
            except (RuntimeError, MemoryError) as error:
                why = _failure(error)
            trial.end_run()
            if why:
                # Not before the error is gone, which holds on to what was there when it happened.
                self._free()
            if why or pruned:
                break
            if hpo.wants_more(experiment.hpo, trial.round, trial.tried):
                self._save(trial)
        if trial.values:
            trial.end_run()
        return self._outcome(trial, given, pruned, why)

    def _outcome(self, trial: Trial, given: Assignment, pruned: bool, why: Reason | None) -> Outcome:
        if not trial.epochs:
            return Outcome(None, why=why or reason("automl-time-up"))
        values = trial.tried[trial.best_run].values
        # The accuracy belongs to the graph that reached it, with the kernels it was trained with.
        graph = self._files.graph(trial.entry.file, trial.entry.graph)
        trained = tuned(graph, given.body, values["kernel_size"], values["dropout"])
        best = {name: value for name, value in values.items() if name != "kernel_size"}
        seen = trial.best_epoch
        if trial.inherited and given.parent is not None:
            seen += self._seen.get(given.parent.number, given.parent.seen)
        self._seen[trial.entry.number] = seen
        fields: dict[str, Any] = {"best": best, "file": self._files.name(trained), "seen": seen}
        if trial.run > 1:
            fields["tried"] = msgspec.to_builtins(trial.tried)
        if trial.entry.graph is not None:
            fields["graph"] = encode(trained).decode()
        if self._ranks.rank == 0:
            self._unsaved[trial.entry.number] = trained, trial.unsaved
        network = {"parameters": trained.size, "operations": flops.count(trained, "trainmark").eval, "values": values}
        network["inherited"] = trial.inherited
        return Outcome(trial.best, pruned, why, fields, network)

    # ---- one training

    def _train_once(self, trial: Trial, prepared: Prepared, network: nn.Module) -> bool:
        """Until its budget is used up, it is stuck, or it falls behind: then True."""
        training, values = self._experiment.training, trial.values
        budget = schedule.budget(training.epochs, trial.round)
        model, optimizer = self._to_device(trial, network)
        shared = trainmark_torch.share(model, self._ranks)
        seed = self._experiment.seed + 1000 * trial.entry.number + trial.run
        # No batch is larger than a rank's share of the data.
        samples = self._samples.for_network(prepared.graph)
        batch = min(values["batch"], max(1, samples.train // self._ranks.world))
        shards = Shards(samples.train, batch, self._ranks, seed, kind=samples.kind)
        images = shards.steps_per_epoch * batch * self._ranks.world
        if taken := self._preparation.taken():
            # Of weights that landed in the wrong place the accuracy would be that of chance.
            first = {"trial": trial.entry.number, "source": taken.source, "tensors": taken.tensors}
            more = {"drawn": taken.drawn, "accuracy": self._evaluate(shared, samples)[0]}
            self._note("automl_pretrained", {**first, **more})
        for epoch in range(len(trial.of_run()), budget):
            if self._agreed(self._clock is not None and self._clock.over()):
                raise TimeUp
            begin = time.time()
            loss = self._epoch(trial, shared, optimizer, shards, samples, epoch)
            right, test_loss = self._evaluate(shared, samples)
            accuracy = quality(self._experiment.metric, right, test_loss, self._classes)
            self._worked = trial.entry.number, time.monotonic()
            record = {
                "trial": trial.entry.number,
                "run": trial.run,
                "epoch": epoch + 1,
                "accuracy": accuracy,
                "loss": loss,
                "val_loss": test_loss,
                "begin": begin,
                "end": time.time(),
                "images": images,
                "flops": _work(prepared.counts, images, samples),
            }
            self._record_epoch(trial, model, record)
            if self._clock is not None:
                self._clock.worked(record["end"])
            mine = trial.of_run()
            accuracies, losses = [one["accuracy"] for one in mine], [one["val_loss"] for one in mine]
            if schedule.is_stuck(training.early_stop, accuracies, losses, trial.round):
                return False
            if self._falls_behind(trial, epoch + 1, accuracy):
                return True
            if epoch + 1 < budget:
                trial.model, trial.optimizer = _on_host(model), optimizer.state_dict()
                trial.scaler = self._precision.scaler.state_dict() if self._precision.scaler else None
                self._save(trial)
        return False

    def _to_device(self, trial: Trial, network: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
        """On the device, with what the checkpoint has of the optimizer."""
        model = network.to(self._ranks.device).to(memory_format=self._layout)  # type: ignore[call-overload]
        optimizer = _optimizer(model, trial.values, self._ranks)
        if trial.optimizer is not None:
            optimizer.load_state_dict(trial.optimizer)
        if trial.scaler and self._precision.scaler:
            self._precision.scaler.load_state_dict(trial.scaler)
        return model, optimizer

    def _epoch(
        self,
        trial: Trial,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        shards: Shards,
        samples: Samples,
        epoch: int,
    ) -> float:
        values, training = trial.values, self._experiment.training
        last = max(training.epochs)
        steps = shards.steps_per_epoch
        model.train()
        probe.epoch_begin(epoch + 1)
        total = torch.zeros((), device=self._ranks.device)
        seed = self._experiment.seed + trial.entry.number
        batches = samples.training(shards, range(epoch * steps, (epoch + 1) * steps), seed)
        try:
            for step in range(steps):
                if self._ranks.world == 1 or step % AGREE_STEPS == 0:
                    self._look_at_clock()
                with probe.span("data"):
                    batch = next(batches)
                self._mark_gap(trial.entry.number)
                rate = schedule.learning_rate(values["lr"], values["final_lr"], epoch + step / steps, last)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.zero_grad(set_to_none=True)
                with self._precision.autocast():
                    answers, labels = flat(model(batch.images), batch.labels)
                    loss = functional.cross_entropy(answers, labels, label_smoothing=values["label_smoothing"])
                self._precision.backward(loss)
                self._precision.update(optimizer, 0.0)
                total += loss.detach()
                probe.step(len(batch.labels))
        finally:
            batches.close()
        probe.epoch_end(epoch + 1)
        # Over all ranks: they go on together or not at all.
        mean = self._ranks.total(float(total))[0] / (steps * self._ranks.world)
        if not math.isfinite(mean):
            raise NotFinite
        return mean

    def _evaluate(self, model: nn.Module, samples: Samples) -> tuple[float, float]:
        """The share of right answers, and the mean loss of an answer."""
        model.eval()
        sums = torch.zeros(3, device=self._ranks.device)
        with probe.phase("evaluate"), torch.no_grad(), self._precision.autocast():
            for batch in samples.evaluation(self._experiment.training.batch):
                answers, labels = flat(model(batch.images).float(), batch.labels)
                right = (answers.argmax(1) == labels).sum()
                loss = functional.cross_entropy(answers, labels, reduction="sum")
                sums += torch.stack((right, loss, torch.full_like(loss, len(labels))))
        right, loss, count = self._ranks.total(*sums.tolist())
        probe.evaluate(accuracy=right / count)
        return right / count, loss / count

    # ---- the record

    def _record_epoch(self, trial: Trial, model: nn.Module, record: dict[str, Any]) -> None:
        """The epoch is done. If this worker is lost before the checkpoint, another repeats the epoch, which then is on
        record already and counts once."""
        trial.epochs.append(record)
        if record["accuracy"] > trial.best:
            trial.best, trial.best_run = record["accuracy"], trial.run
            trial.unsaved = _on_host(model) if self._ranks.rank == 0 else None
        self._note("automl_epoch", record)
        seconds = record["end"] - record["begin"]
        by_loss = self._experiment.metric == "loss"
        reached = 1 - record["accuracy"] if by_loss else record["accuracy"]
        self._say(
            f"trial {record['trial']}, training {record['run'] + 1}, epoch {record['epoch']}: "
            f"loss {record['loss']:.4f}, test loss {record['val_loss']:.4f}, "
            f"{'error' if by_loss else 'accuracy'} {100 * reached:.2f} %, "
            f"{record['images'] / max(seconds, 1e-9):,.0f} samples/s"
        )

    def _say(self, text: str) -> None:
        """A line of the worker's log, for people."""
        if self._ranks.rank == 0:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), text, flush=True)

    def _save(self, trial: Trial) -> None:
        """A worker that takes over the trial goes on from here."""
        if trial.unsaved is not None:
            self._files.put_weights(trial.entry.number, trial.unsaved)
            # On a CPU they are the very ones that training goes on with.
            trial.unsaved = None
        if self._ranks.rank == 0:
            self._files.put_checkpoint(trial.entry.number, trial.record())

    def _note(self, name: str, value: dict[str, Any]) -> None:
        if self._ranks.rank == 0:
            probe.note(name, value)

    def _mark_gap(self, trial: int) -> None:
        if self._worked is not None and self._worked[0] != trial:
            before, moment = self._worked
            self._note("automl_gap", {"before": before, "after": trial, "seconds": time.monotonic() - moment})
        self._worked = None

    def _falls_behind(self, trial: Trial, epoch: int, accuracy: float) -> bool:
        asha = self._experiment.training.asha
        if asha is None:
            return False
        behind = False
        if self._ledger is not None:
            behind = self._ledger.falls_behind(trial.entry, epoch, accuracy, asha.first, asha.factor)
        return self._agreed(behind)

    def _look_at_clock(self) -> None:
        late = False
        if self._clock is not None:
            self._clock.begin(self._owner)
            late = self._clock.late()
        if self._agreed(late):
            raise TimeUp

    def _agreed(self, first: bool) -> bool:
        """What the first rank says, on every rank."""
        return first if self._ranks.world == 1 else self._ranks.total(float(first))[0] > 0

    def _free(self) -> None:
        """What a failed training left on the device."""
        import gc

        gc.collect()
        if self._ranks.device.type == "cuda":
            torch.cuda.empty_cache()


def _work(counts: dict[str, Flops], images: int, samples: Samples) -> dict[str, float]:
    """Operations of an epoch. AIPerf's own numbers of images stand for ImageNet only."""
    done = {rules: flops.epoch(found, images, samples.test) for rules, found in counts.items()}
    if "aiperf" in counts and (samples.train, samples.test) == IMAGENET[:2]:
        done["aiperf"] = flops.epoch(counts["aiperf"], *flops.IMAGES["aiperf"])
    return {rules: float(value) for rules, value in done.items()}


def _optimizer(model: nn.Module, values: Values, ranks: Ranks) -> torch.optim.Optimizer:
    given = {"lr": values["lr"], "weight_decay": values["weight_decay"], "fused": trainmark_torch.can_fuse(ranks)}
    if values["optimizer"] == "adamw":
        return torch.optim.AdamW(model.parameters(), **given)
    return torch.optim.SGD(model.parameters(), momentum=values["momentum"], **given)


def _on_host(model: nn.Module) -> dict[str, Any]:
    return {name: value.detach().cpu() for name, value in model.state_dict().items()}


def _failure(error: BaseException) -> Reason:
    """A network that does not fit, or whose numbers blow up, is a result; anything else is a fault of ours."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    full = (
        isinstance(error, MemoryError | torch.OutOfMemoryError) or "allocate memory" in text or "out of memory" in text
    )
    if full:
        return reason("automl-out-of-memory", text=text[:200])
    if isinstance(error, NotFinite):
        return reason("automl-loss-not-finite")
    raise error
