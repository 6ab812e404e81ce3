"""The timed training loop, the order of samples and the learning rate, the same for every framework; it imports none.

A program iterates over the loop and makes one update of the weights in each turn; between two steps the loop evaluates
and saves checkpoints, and it makes all calls of the probe. A framework's subclass saves and restores its own state.
Which samples a rank sees, and the learning rate, depend on the seed and the number of the step alone, so a resumed run
sees what an uninterrupted one sees.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import trainmark_job
import trainmark_length
import trainmark_probe as probe
from trainmark_job import InputError

# During a long evaluation the agent hears this often that the process lives.
SIGN_OF_LIFE_SECONDS = 10.0
# Steps of a training whose end is decided as it goes.
ENDLESS = 1 << 40


class Rank(Protocol):
    """One of several processes that train together."""

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...


class Shards:
    """Disjoint shares of each epoch's random order: every rank has the same number of whole batches."""

    def __init__(
        self, samples: int, batch: int, ranks: Rank, seed: int, accumulate: int = 1, kind: str = "images"
    ) -> None:
        per_step = batch * accumulate
        self.steps_per_epoch = samples // (per_step * ranks.world)
        if not self.steps_per_epoch:
            wanted = f"one step of {ranks.world} x {per_step}"
            raise InputError(f"{samples} {kind} are fewer than {wanted}: set a smaller batch")
        self._samples, self._batch, self._accumulate = samples, batch, accumulate
        self._ranks, self._seed = ranks, seed
        self._epoch, self._order = -1, np.empty(0, np.int64)

    def indices(self, number: int) -> np.ndarray[Any, Any]:
        """The samples of this rank in its batch `number`, counted from 0; a step has `accumulate` batches."""
        step, part = divmod(number, self._accumulate)
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = np.random.default_rng([self._seed, epoch]).permutation(self._samples)
            self._epoch = epoch
        start = ((position * self._ranks.world + self._ranks.rank) * self._accumulate + part) * self._batch
        return self._order[start : start + self._batch]


def learning_rate(peak: float, step: int, steps: int, warmup: int, schedule: str, floor: float = 0.0) -> float:
    """At `step`, counted from 0: a linear rise over `warmup` steps to `peak`, then the schedule (cosine, linear or
    constant), which ends after `steps` at the share `floor` of the peak."""
    if step < warmup:
        return peak * ((step + 1) / warmup)
    passed = min(1.0, (step - warmup) / max(1, steps - warmup))
    left = {"cosine": 0.5 * (1 + math.cos(math.pi * passed)), "linear": 1 - passed, "constant": 1.0}[schedule]
    return peak * (floor + (1 - floor) * left)


@dataclass(frozen=True)
class Target:
    """What the metric must reach on the test data; a value of 0 is no target."""

    metric: str
    direction: Literal["up", "down"]
    value: float

    def reached(self, values: dict[str, float]) -> bool | None:
        """None without a target or before an evaluation."""
        if not values or not self.value:
            return None
        found = values[self.metric]
        return bool(found >= self.value if self.direction == "up" else found <= self.value)


class Pace:
    """Whether there is another step, the same answer on all ranks.

    A training by time is looked at by rank 0, at steps that all ranks know, and every rank makes the steps that rank 0
    says: no rank goes by its own clock. `agree` gives all ranks the number of rank 0.
    """

    def __init__(
        self, config: dict[str, Any], first: int, planned: int, world: int, agree: Callable[[float], float]
    ) -> None:
        self._first, self._planned, self._several, self._agree = first, planned, world > 1, agree
        length = trainmark_length.of_config(config)
        self._begin = time.monotonic()
        self._looks = length and trainmark_length.Measured(length, planned - first, self._begin - trainmark_job.began)
        self._until = first if length else planned
        self._paused, self._capped = 0.0, False

    @contextlib.contextmanager
    def pause(self, name: str) -> Generator[None, None, None]:
        """Around what is no training."""
        begin = time.monotonic()
        with probe.phase(name):
            yield
        self._paused += time.monotonic() - begin

    def goes_on(self, done: int) -> bool:
        """Whether a step follows after `done` steps."""
        if done < self._until or self._looks is None:
            return done < self._until
        if not self._several:
            ahead = self._look(done)
        else:
            # Out of the time of the steps, as far as waiting for each other is not their time.
            with self.pause("agree"):
                ahead = int(self._agree(float(self._look(done))))
        self._until, self._capped = done + ahead, ahead == trainmark_length.CAPPED
        return ahead > 0

    def note(self, done: int) -> None:
        """The steps are made; what comes now may fail without any harm to them."""
        probe.note("trained", {"steps": done, "planned": self._planned, "capped": self._capped})

    def _look(self, done: int) -> int:
        passed = time.monotonic() - self._begin
        return self._looks.steps_ahead(done - self._first, passed - self._paused, passed) if self._looks else 0


class TimedLoop:
    """`for step in loop:` runs from the first step, or the one after the last checkpoint, to the last or the target.

    Where trainmark asks for a length (`trainmark_length`), training goes on after the recipe's last step until there is
    enough to measure: those steps are timed and nothing else, without evaluations and checkpoints.

    `batches(numbers)` gives this rank's batches of these numbers, counted from 0 over the whole training; a step has
    `accumulate` of them. `evaluate()` gives what the model reaches on the test data, by name. Parameters of the program
    are `stop_at_target`, `checkpoint_every` (0: never) and, unless they are given, `accumulate` and `eval_every`
    (0: after each epoch); the first evaluation comes after at least `eval_from` steps.
    """

    def __init__(
        self,
        config: dict[str, Any],
        ranks: Any,
        *,
        steps: int,
        steps_per_epoch: int,
        batches: Callable[[range], Generator[Any, None, None]],
        evaluate: Callable[[], dict[str, float]] | None,
        target: Target,
        accumulate: int | None = None,
        eval_every: int | None = None,
        eval_from: int = 0,
    ) -> None:
        params = config["params"]
        self.config, self.ranks, self.steps, self.steps_per_epoch = config, ranks, steps, steps_per_epoch
        self.accumulate: int = params.get("accumulate", 1) if accumulate is None else accumulate
        self._batches, self._evaluate, self._target = batches, evaluate, target
        self._eval_every = (params["eval_every"] if eval_every is None else eval_every) or steps_per_epoch
        self._eval_from, self._checkpoint_every = eval_from, params["checkpoint_every"]
        self._may_stop = bool(params["stop_at_target"] and evaluate and target.value)
        self.checkpoints = Path(config["checkpoints"])
        self.step = 0
        # The last evaluation, and the number of steps that were done then.
        self._values: dict[str, float] = {}
        self._evaluated = -1
        self._samples, self._loss, self._trained = 0, None, 0.0

    # -- for the program

    def __iter__(self) -> Iterator[int]:
        done = first = self._resume()
        if done:
            probe.resume(done)
        probe.note("parameters", self._parameters())
        probe.init_end()
        probe.train_start()
        begin = time.monotonic()
        self._pace = pace = Pace(self.config, first, self.steps, self.ranks.world, self._agreed)
        by_time = bool(self.config.get("length"))
        last = ENDLESS if by_time else self.steps
        self._source = self._batches(range(first * self.accumulate, last * self.accumulate))
        for step in itertools.count(first):
            if not pace.goes_on(step):
                break
            self.step = step
            epoch, position = divmod(step, self.steps_per_epoch)
            if step == first or position == 0:
                probe.epoch_begin(epoch + 1)
            yield step
            probe.step(self._samples, self._loss)
            done = step + 1
            if position + 1 == self.steps_per_epoch:
                probe.epoch_end(epoch + 1)
            if done > self.steps:
                continue
            due = (done % self._eval_every == 0 and done >= self._eval_from) or (by_time and done == self.steps)
            if due:
                self._evaluation(done)
            if self._checkpoint_every and done % self._checkpoint_every == 0:
                with pace.pause("checkpoint"):
                    self._save(done)
            if due and self._may_stop and self._agreed(bool(self._target.reached(self._values))):
                break
        self._source.close()
        pace.note(done)
        # What was cut short is no result of the recipe, and is not evaluated.
        if self._evaluated < 0 <= done - self.steps or (not by_time and self._evaluated != done):
            self._evaluation(done)
        probe.train_end()
        self.step, self._trained = done, self._agreed(time.monotonic() - begin)

    def batch(self) -> Any:
        """The next one; the time until it is there is part of the step's event."""
        with probe.span("data"):
            return next(self._source)

    def done(self, samples: int, loss: Any) -> None:
        """What this rank trained in the step: samples and their loss, which may still be on the device."""
        self._samples, self._loss = samples, loss

    def finish(self, flops_per_sample: Callable[[], float]) -> None:
        """After the loop: notes that take time, the result, and the end of the process group."""
        self._last_notes(self._trained)
        if self.ranks.rank == 0:
            probe.note("flops_per_sample", flops_per_sample())
        probe.finish(converged=self._target.reached(self._values), steps=self.step, **self._values)
        self._leave()

    def _evaluation(self, done: int) -> None:
        if self._evaluate is None:
            return
        with self._pace.pause("evaluate"):
            self._values = self._evaluated_by(self._evaluate)
        self._evaluated = done
        probe.evaluate(**self._values)
        if self.ranks.rank == 0:
            text = ", ".join(f"{name} {value:.4f}" for name, value in self._values.items())
            print(f"step {done}: {text}", flush=True)

    def _agreed(self, value: float) -> float:
        """The value of rank 0, on every rank: what is decided before ranks wait for each other must be one decision."""
        if self.ranks.world == 1:
            return value
        agreed: float = self.ranks.total(float(value) if self.ranks.rank == 0 else 0.0)[0]
        return agreed

    # -- for each framework

    def _parameters(self) -> int:
        """How many the model has."""
        raise NotImplementedError

    def _resume(self) -> int:
        """Restore the newest checkpoint that every node has; the number of its step, 0 when there is none."""
        raise NotImplementedError

    def _save(self, done: int) -> None:
        """Keep a checkpoint after `done` steps."""
        raise NotImplementedError

    def _evaluated_by(self, evaluate: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Call it with the model in its state for evaluations."""
        raise NotImplementedError

    def _last_notes(self, trained: float) -> None:
        """What is known of the weights, after `trained` seconds of training, the same number on all ranks."""
        raise NotImplementedError

    def _leave(self) -> None:
        """Leave the process group when all ranks are here."""
        raise NotImplementedError


def alive(batches: Iterator[Any]) -> Iterator[Any]:
    """The batches of an evaluation, with signs of life between them."""
    noted = time.monotonic()
    for number, batch in enumerate(batches, 1):
        yield batch
        if time.monotonic() - noted > SIGN_OF_LIFE_SECONDS:
            probe.note("evaluated_batches", number)
            noted = time.monotonic()
