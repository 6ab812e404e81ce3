"""Counts the steps of an unmodified program and the samples that each of them trained.

No torch is needed here: the hooks report each batch a loader gives, each backward pass and each optimizer step.
A step is the first step of the chosen optimizer after new batches were trained on; it trained all the batches
that came since the last one. Batches of a loader that never saw a backward pass were not trained on.
"""

from __future__ import annotations

from typing import Any


class LoaderState:
    """One loader's iterator: its batches that no step has taken yet, and whether they are trained on."""

    def __init__(self, batch_size: int | None = None) -> None:
        self.batch_size = batch_size
        self.how: str | None = None  # where in a batch its samples are counted
        self.pending: list[int] = []  # samples of each
        self.waited_ns = 0  # for those
        self.began_ns = 0  # this pass; it may be over while a step is still to take its last batches
        self.last_ns = 0
        self.passed = 0  # batches of this pass
        self.held = False  # its last batch was left for the next step
        self.trained = False  # a backward pass came after one of its batches
        self.learning = True  # nothing speaks against training: gradients are on, the model is in training mode


class StepCounter:
    """The count so far. `batch`: samples that each process trains in a step, as the user said."""

    def __init__(self, batch: int | None = None) -> None:
        self.batch = batch
        self.steps = 0
        self.updates = 0  # steps of the chosen optimizer, counted ones and others
        self.samples = 0
        self.evaluated = 0  # samples that were not trained on
        self.idle: list[tuple[int, int]] = []  # when loaders were read without training; the caller empties it
        self._pending: list[LoaderState] = []  # those with batches that no step has taken
        self._loaders: list[list[int]] = []  # batches and samples trained on, per loader of a step
        self._current: LoaderState | None = None  # the one that gave the last batch
        self._over: LoaderState | None = None  # at its end, and not known yet whether it was trained on
        self._backwards = 0
        self._ended = False  # a loader that was trained on came to its end since the last step
        self._may_be_ahead = True  # until the program turns out not to read ahead

    def fetched(self, loader: LoaderState, samples: int, learning: bool, now_ns: int, waited_ns: int) -> None:
        """A loader gave a batch; it took `waited_ns` until `now_ns`."""
        self._settle_over()
        self._ended = False
        if not loader.passed:
            loader.began_ns = now_ns - waited_ns
        loader.passed += 1
        loader.last_ns = now_ns
        loader.learning = learning
        loader.pending.append(samples)
        loader.waited_ns += waited_ns
        if loader not in self._pending:
            self._pending.append(loader)
        self._current = loader

    def ended(self, loader: LoaderState, now_ns: int) -> None:
        """A loader has no more batches. Its last ones may be trained on later: some programs read ahead."""
        if not loader.passed:
            return
        loader.last_ns = now_ns
        self._ended = loader.trained
        if not loader.trained:
            self._over = loader
            if not loader.learning:
                self._settle_over()
        if self._current is loader:
            self._current = None
        loader.passed = 0
        loader.trained = False

    def backward(self) -> None:
        """The batch that came last is trained on, and so are those of other loaders that look like training."""
        self._backwards += 1
        self._mark()

    def step(self) -> tuple[int, int] | None:
        """The chosen optimizer has stepped: samples and data wait of the step, None when it is not a new step."""
        self.updates += 1
        if not self._backwards:
            self._mark()  # gradients were computed in another way
        trained = [loader for loader in self._pending if loader.trained]
        # A program that reads ahead reaches the end of its loader before the last backward pass; that step counts.
        if not trained and self._loaders and not (self._ended and self._backwards):
            return None
        waited = sum(loader.waited_ns for loader in trained)
        # A pass that is over and the one that follows may be in one step.
        over = sum(len(loader.pending) for loader in trained if not loader.passed)
        taken = sum([self._take(loader, place, over) for place, loader in enumerate(trained)])
        self._drop_untrained()
        self._backwards = 0
        self._ended = False
        self.steps += 1
        samples = taken if self.batch is None else self.batch
        self.samples += samples
        return samples, waited

    def close(self) -> None:
        """Nothing more comes."""
        self._settle_over()
        self._drop_untrained()

    def counted(self) -> dict[str, Any]:
        """The figures that the scorer checks against each other."""
        return {
            "steps": self.steps,
            "updates": self.updates,
            "batch": self.batch,
            "samples": self.samples,
            "loaders": self._loaders,
            "evaluated": self.evaluated,
        }

    def _mark(self) -> None:
        self._over = None
        for loader in self._pending:
            if loader is self._current or loader.learning:
                loader.trained = True

    def _take(self, loader: LoaderState, place: int, over: int) -> int:
        """The samples of a step. A loader that is one batch ahead of the backward passes has fetched the next one."""
        fits = loader.passed > 0 and self._backwards > 0 and over + len(loader.pending) == self._backwards + 1
        ahead = fits and self._may_be_ahead
        if loader.held and loader.passed and not ahead:
            self._may_be_ahead = False  # several batches for each backward pass
        loader.held = ahead
        now, loader.pending = (loader.pending[:-1], loader.pending[-1:]) if ahead else (loader.pending, [])
        if place == len(self._loaders):
            self._loaders.append([0, 0])
        self._loaders[place][0] += len(now)
        self._loaders[place][1] += sum(now)
        loader.waited_ns = 0
        if not loader.pending:
            self._pending.remove(loader)
        return sum(now)

    def _settle_over(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            self._drop(over)

    def _drop_untrained(self) -> None:
        for loader in [loader for loader in self._pending if not loader.trained]:
            self._drop(loader)

    def _drop(self, loader: LoaderState) -> None:
        """Counts its batches as evaluated: read, and not trained on."""
        self.evaluated += sum(loader.pending)
        self.idle.append((loader.began_ns, loader.last_ns))
        loader.pending = []
        loader.waited_ns = 0
        if loader in self._pending:
            self._pending.remove(loader)


class OptimizerChoice:
    """Chooses which of several optimizers makes the steps: the one with most parameters that is really used.

    The optimizers that step between each other's batches are one training. One that steps on a batch of its own while
    the others stand still begins another (the next fold, the next model), or goes on with an earlier one. Whether
    it was made before them does not matter, but a training of a single step is none yet: it may be a GAN's.
    """

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._now: set[int] = set()  # those that may step in the present training
        self._next: set[int] = set()  # those made since it began
        self._stepped: set[int] = set()
        self._past: list[set[int]] = []  # those that stepped in each other training
        self._steps = 0  # since the present one began or went on
        self.chosen: int | None = None

    def made(self, key: int, size: int) -> None:
        self._sizes[key] = size
        (self._next if self._stepped else self._now).add(key)
        for training in (self._stepped, *self._past):
            training.discard(key)
        if key == self.chosen:  # a new optimizer in the place of one that is gone
            self.chosen = None

    @property
    def used(self) -> int:
        """How many optimizers of the present training have stepped."""
        return len(self._stepped)

    @property
    def trainings(self) -> int:
        return len(self._past) + 1

    def stepped(self, key: int, fresh: bool = True) -> int:
        """An optimizer has stepped: how many steps that makes. 0 while a larger one may still follow; when it is sure
        that none does, the step before counts too. `fresh`: a batch came since any optimizer has stepped."""
        self._sizes.setdefault(key, 0)
        if key in self._next or (self._stepped and key not in self._stepped):
            self._place(key, fresh)
        again = key in self._stepped
        self._stepped.add(key)
        self._now.add(key)
        size = self._sizes[key]
        late = False
        if self.chosen is not None and size > self._sizes[self.chosen]:
            self.chosen = key
            if not fresh:
                return 0  # the smaller one has counted this step
        elif self.chosen is None and again:
            late = self.settle()
        elif self.chosen is None and not any(self._sizes[other] > size for other in self._now):
            self.chosen = key
        self._steps += key == self.chosen
        return late + (key == self.chosen)

    def settle(self) -> bool:
        """A new batch came, or the end: True when a step that was not counted yet counts after all."""
        if self.chosen is not None or not self._stepped:
            return False
        self.chosen = self._largest(self._stepped)
        self._steps += 1
        return True

    def _place(self, key: int, fresh: bool) -> None:
        """An optimizer that has not stepped in the present training: it belongs to another one, or joins this one."""
        made_late = key in self._next
        self._next.discard(key)
        earlier = next((training for training in self._past if key in training), None)
        if earlier is not None:
            self._past.remove(earlier)
        if fresh and (self._steps > 1 or made_late):
            self._past.append(self._stepped)
            self._now = self._next if made_late else set(self._sizes).difference(*self._past)
            self._next, self._steps = set(), 0
            self._stepped = earlier or set()
            self.chosen = self._largest(earlier) if earlier else None
        elif earlier:
            self._stepped |= earlier
            self.chosen = self._largest(self._stepped)

    def _largest(self, keys: set[int]) -> int:
        return max(keys, key=self._sizes.__getitem__)


def samples_in(batch: Any, loader: LoaderState) -> int:
    """How many samples a batch holds: the first tensor's first dimension, or the length of a list of samples."""
    if loader.how is None:
        loader.how = _how(batch, loader.batch_size)
    if loader.how == "inner":
        return len(batch[0])
    if loader.how == "outer":
        return len(batch)
    return _first_size(batch) or 0


def _how(batch: Any, expected: int | None) -> str:
    """A list of samples that no collate function has stacked has tensors of other first dimensions."""
    if isinstance(batch, (list, tuple)) and batch:
        first = batch[0]
        stacked = _first_size(batch)
        if stacked is None or (expected is not None and stacked != expected):
            if isinstance(first, (list, tuple)) and (expected is None or len(first) == expected):
                return "inner"
            if expected is None or len(batch) == expected:
                return "outer"
    return "tensor"


def _first_size(value: Any, depth: int = 0) -> int | None:
    """The first dimension of the first tensor (or array) in a nest of lists, mappings and records."""
    shape = getattr(value, "shape", None)
    if shape is not None and hasattr(value, "dtype"):
        return int(shape[0]) if len(shape) else None
    if depth > 8 or isinstance(value, (str, bytes, int, float)) or value is None:
        return None
    count = getattr(value, "num_graphs", None)  # a batch of graphs is one large graph
    if isinstance(count, int):
        return count
    inner = value if isinstance(value, (list, tuple)) else None
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        inner = [value[key] for key in value.keys()]  # not every mapping iterates over its keys
    elif inner is None:
        inner = list(getattr(value, "__dict__", {}).values())
    for part in inner:
        found = _first_size(part, depth + 1)
        if found is not None:
            return found
    return None
