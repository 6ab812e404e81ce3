"""What counts as a step and which samples were trained in it, told from what an unmodified program does.

Pure bookkeeping, without torch: the hooks report each batch a loader gives, each backward pass and each optimizer step.
A step is the first step of the chosen optimizer after new batches were trained on; it trained all the batches
that came since the last one. Batches of a loader that never saw a backward pass were not trained on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Source:
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


class Ledger:
    """The count so far. `batch` is what the user said that each process trains in a step."""

    def __init__(self, batch: int | None = None) -> None:
        self.batch = batch
        self.steps = 0
        self.updates = 0  # steps of the chosen optimizer, counted ones and others
        self.samples = 0
        self.evaluated = 0  # samples that were not trained on
        self.idle: list[tuple[int, int]] = []  # when loaders were read without training; for the reader to empty
        self._sources: list[Source] = []  # with pending batches
        self._loaders: list[list[int]] = []  # batches and samples trained on: of the first loader of a step, the second
        self._current: Source | None = None  # that gave the last batch
        self._over: Source | None = None  # at its end, before anything has told whether it was trained on
        self._backwards = 0
        self._ended = False  # a loader that was trained on came to its end since the last step
        self._may_be_ahead = True  # until the program shows that it does not read ahead

    def fetched(self, source: Source, samples: int, learning: bool, now_ns: int, waited_ns: int) -> None:
        """A loader gave a batch; it took `waited_ns` until `now_ns`."""
        self._settle_over()
        self._ended = False
        if not source.passed:
            source.began_ns = now_ns - waited_ns
        source.passed += 1
        source.last_ns = now_ns
        source.learning = learning
        source.pending.append(samples)
        source.waited_ns += waited_ns
        if source not in self._sources:
            self._sources.append(source)
        self._current = source

    def ended(self, source: Source, now_ns: int) -> None:
        """A loader has no more. Its last batches may be trained on later: some programs read ahead."""
        if not source.passed:
            return
        source.last_ns = now_ns
        self._ended = source.trained
        if not source.trained:
            self._over = source
            if not source.learning:
                self._settle_over()
        if self._current is source:
            self._current = None
        source.passed = 0
        source.trained = False

    def backward(self) -> None:
        """The batch that came last is trained on, and so are those of other loaders that look like training."""
        self._backwards += 1
        self._mark()

    def step(self) -> tuple[int, int] | None:
        """The chosen optimizer has stepped: samples and data wait of the step, None when it is not a new one."""
        self.updates += 1
        if not self._backwards:
            self._mark()  # gradients were made in another way
        trained = [source for source in self._sources if source.trained]
        # One that reads ahead has its loader at the end before the last backward pass; that step is one all the same.
        if not trained and self._loaders and not (self._ended and self._backwards):
            return None
        waited = sum(source.waited_ns for source in trained)
        # A pass that is over and the one that follows may be in one step.
        over = sum(len(source.pending) for source in trained if not source.passed)
        taken = sum([self._take(source, place, over) for place, source in enumerate(trained)])
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
        """The figures that a scorer checks against each other."""
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
        for source in self._sources:
            if source is self._current or source.learning:
                source.trained = True

    def _take(self, source: Source, place: int, over: int) -> int:
        """The samples of a step. A loader that is one batch ahead of the backward passes has fetched the next one."""
        fits = source.passed > 0 and self._backwards > 0 and over + len(source.pending) == self._backwards + 1
        ahead = fits and self._may_be_ahead
        if source.held and source.passed and not ahead:
            self._may_be_ahead = False  # it has several batches for each backward pass
        source.held = ahead
        now, source.pending = (source.pending[:-1], source.pending[-1:]) if ahead else (source.pending, [])
        if place == len(self._loaders):
            self._loaders.append([0, 0])
        self._loaders[place][0] += len(now)
        self._loaders[place][1] += sum(now)
        source.waited_ns = 0
        if not source.pending:
            self._sources.remove(source)
        return sum(now)

    def _settle_over(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            self._drop(over)

    def _drop_untrained(self) -> None:
        for source in [source for source in self._sources if not source.trained]:
            self._drop(source)

    def _drop(self, source: Source) -> None:
        """It was read and not trained on."""
        self.evaluated += sum(source.pending)
        self.idle.append((source.began_ns, source.last_ns))
        source.pending = []
        source.waited_ns = 0
        if source in self._sources:
            self._sources.remove(source)


class Chooser:
    """Which of several optimizers makes the steps: the one with most parameters that is really used.

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
                return 0  # the smaller one has made this step
        elif self.chosen is None and again:
            late = self.settle()
        elif self.chosen is None and not any(self._sizes[other] > size for other in self._now):
            self.chosen = key
        self._steps += key == self.chosen
        return late + (key == self.chosen)

    def settle(self) -> bool:
        """A new batch came, or the end: True when a step that did not count yet does after all."""
        if self.chosen is not None or not self._stepped:
            return False
        self.chosen = self._largest(self._stepped)
        self._steps += 1
        return True

    def _place(self, key: int, fresh: bool) -> None:
        """One that has not stepped in the present training: is it another one's, or does it join?"""
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


def samples_in(batch: Any, source: Source) -> int:
    """How many samples a batch holds: the first tensor's first dimension, or the length of a list of samples."""
    if source.how is None:
        source.how = _how(batch, source.batch_size)
    if source.how == "inner":
        return len(batch[0])
    if source.how == "outer":
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
