"""Counts the steps of an unmodified program and the samples that each of them trained.

No framework is needed here: the hooks report each batch a loader gives, each backward pass and each update of an
optimizer. A step is the first update by any optimizer after new batches were trained on. It trains as many batches as
it has backward passes, the last that were read; others are held until it shows whether the program reads ahead, takes
several batches for each pass, or has skipped them.
"""

from __future__ import annotations

from typing import Any

# A loader beside the one that is trained on, in more than this share of the steps, leaves the count in doubt.
_BESIDE = 0.2
_MOST_NAMED = 4  # optimizers, the largest


class Source:
    """One loader of the program, whatever iterators it gives out."""

    def __init__(self) -> None:
        self.followed: list[int] = []  # batches since the last step that a backward pass has followed
        self.first = False  # the first of a pass are among them
        self.shapes: set[tuple[int, int]] = set()  # how many batches and backward passes its steps had
        self.suspects: list[int] = []  # those of its first step that were more than its backward passes
        self.grouped: tuple[int, int] | None = None  # more batches than backward passes in each step, for sure
        self.broken = 0  # steps of another shape after that
        self.passes = 0
        self.trial: list[int] | None = None  # batches read beside those of another loader, not yet known for what
        self.beside = False  # it is read beside another one, time and again
        self.dropped = [0, 0]  # trials that came to nothing, and their samples
        self.parallel = False  # several of its iterators are read in turn
        self.last = LoaderState(self)  # the iterator that a backward pass has followed last


class LoaderState:
    """One iterator of a loader: its batches that no backward pass has followed yet."""

    def __init__(self, source: Source | None = None) -> None:
        self.source: Source = source if source is not None else Source()
        self.fresh: list[int] = []
        self.left: list[int] = []  # given up when another iterator of its loader began
        self.began_ns = 0  # this pass
        self.last_ns = 0
        self.passed = 0  # batches of this pass
        self.held: list[int] = []  # read before the batches that were trained on: read ahead, or skipped
        self.trained = False  # a backward pass came after one of its batches
        self.learning = True  # nothing speaks against training: gradients are on, the model is in training mode
        self.possible = True  # gradients are on; some programs train a model that is in evaluation mode


class StepCounter:
    """The count so far. `batch`: samples that each process trains in a step, as the user said."""

    def __init__(self, batch: int | None = None) -> None:
        self.batch = batch
        self.steps = 0
        self.samples = 0
        self.evaluated = 0  # samples that were read and not trained on
        self.unsure = 0  # samples of which it is not sure that there were so many
        self.idle: list[tuple[int, int]] = []  # when loaders were read without training; the caller empties it
        self.loads = False  # batches of a loader have been trained on
        self._pending: list[LoaderState] = []  # those with batches that no backward pass has followed
        self._sources: list[Source] = []
        self._loaders: list[list[int]] = []  # batches and samples trained on, per loader of a step
        self._taken: list[list[int]] = []  # since the last step, by loader
        self._waited_ns = 0
        self._current: LoaderState | None = None  # the one that gave the last batch
        self._over: LoaderState | None = None  # at its end, and not known yet whether it was trained on
        self._ended: LoaderState | None = None  # at its end since the last batch
        self._backwards = 0  # since the last step
        self._implicit = True  # until one is seen: some programs compute gradients in another way
        self._at_end = False  # a backward pass came after the end of a loader that is trained on

    # ---- what is reported

    def fetched(
        self,
        loader: LoaderState,
        samples: int,
        learning: bool,
        now_ns: int,
        waited_ns: int,
        sure: bool = True,
        possible: bool = True,
    ) -> None:
        """A loader gave a batch; it took `waited_ns` until `now_ns`."""
        self._settle_over()
        if self._ended is not None:
            self._give_up(self._ended.held)  # it was not read ahead after all
            self._ended.held, self._ended = [], None
        if not loader.passed:
            self._begin_pass(loader, now_ns - waited_ns)
        elif loader.left:  # another iterator of its loader is read at the same time, so it was trained on
            loader.source.parallel = True
            self.evaluated -= sum(loader.left)
            self._take(loader.source, loader.left)
            loader.left = []
        loader.passed += 1
        loader.last_ns = now_ns
        loader.learning, loader.possible = learning, possible
        loader.fresh.append(samples)
        if learning:
            self._waited_ns += waited_ns
            self.unsure += 0 if sure else max(samples, 1)
        if loader not in self._pending:
            self._pending.append(loader)
        self._current = loader

    def ended(self, loader: LoaderState, now_ns: int) -> None:
        """A loader has no more batches. Its last ones may be trained on later: some programs read ahead."""
        if not loader.passed:
            return
        loader.last_ns = now_ns
        self._ended = loader
        if not loader.trained:
            self._over = loader
            if not loader.learning:
                self._settle_over()
        loader.passed = 0

    def restarted(self, loader: LoaderState) -> None:
        """A new pass of the same iterator, whose batches that are on their way are thrown away."""
        if loader.passed:
            self._leave(loader)
            loader.left = []
            loader.passed = 0

    def backward(self) -> None:
        """The batch that came last is trained on, and so are those of other loaders that look like training."""
        self._implicit = False
        self._follow()

    def _follow(self) -> None:
        self._backwards += 1
        self._over = None
        self._at_end = self._at_end or (self._ended is not None and self._ended.trained)
        fresh = [one for one in self._pending if one.learning or (one.possible and one is self._current)]
        for source in self._sources:
            if fresh and source.trial is not None and all(one.source is not source for one in fresh):
                self._end_trial(source)
        for one in fresh:
            self._pending.remove(one)
            self._train(one)
        if not fresh and self._ended is not None and self._ended.held:
            self._ended.source.followed.append(self._ended.held.pop())  # it was read ahead
            self._ended.source.shapes.add((0, 1))

    def take_step(self) -> bool:
        """An optimizer has stepped: whether batches were trained on since the step before."""
        if self._implicit:
            self._follow()
        for source in self._sources:
            if source.followed:
                self._take(source, self._group(source))
        # A program that reads ahead reaches the end of its loader before the last backward pass; that step counts.
        return bool(self._taken) or (self.loads and self._at_end)

    def step(self) -> tuple[int, int, int]:
        """A step is counted: its samples, how long it waited for its data, how many batches it is accumulated over."""
        samples = sum(sum(taken) for taken in self._taken)
        accumulated = min(self._backwards, max(map(len, self._taken), default=0))
        for place, taken in enumerate(self._taken):
            if place == len(self._loaders):
                self._loaders.append([0, 0])
            self._loaders[place][0] += len(taken)
            self._loaders[place][1] += sum(taken)
        for loader in [one for one in self._pending if not one.learning]:
            self._drop(loader)
        waited, self._waited_ns = self._waited_ns, 0
        self._taken = []
        self._backwards = 0
        if self._at_end and self._ended is not None and not self._ended.held:
            self._ended = None  # there is nothing left of it that could be trained on
        self._at_end = False
        self.steps += 1
        samples = samples if self.batch is None else self.batch
        self.samples += samples
        return samples, waited, accumulated

    def close(self) -> None:
        """Nothing more comes."""
        self._settle_over()
        if self._ended is not None:
            self._give_up(self._ended.held)
        for loader in list(self._pending):
            self._drop(loader)
        for source in self._sources:
            self._end_trial(source)

    def counted(self) -> dict[str, Any]:
        """The figures that the scorer checks against each other."""
        unsure = self.unsure
        for source in self._sources:
            if source.dropped[0] > max(2, _BESIDE * self.steps):
                unsure += source.dropped[1]
            if source.broken > source.passes:
                unsure += self.samples
        return {
            "steps": self.steps,
            "batch": self.batch,
            "samples": self.samples,
            "loaders": self._loaders,
            "evaluated": self.evaluated,
            "unsure": unsure,
        }

    # ---- which batches were trained on

    def _begin_pass(self, loader: LoaderState, began_ns: int) -> None:
        source = loader.source
        if source not in self._sources:
            self._sources.append(source)
        source.passes += 1
        loader.began_ns = began_ns
        loader.trained = False
        if not source.parallel:
            for other in [one for one in self._pending if one.source is source and one is not loader]:
                self._leave(other)

    def _leave(self, loader: LoaderState) -> None:
        """The program has left this iterator: by `break`, or after a look at one batch."""
        loader.left = list(loader.fresh)
        self._give_up(loader.fresh)
        if not loader.trained:
            self.idle.append((loader.began_ns, loader.last_ns))
        loader.fresh = []
        if loader in self._pending:
            self._pending.remove(loader)

    def _train(self, loader: LoaderState) -> None:
        """A backward pass follows these batches."""
        source, fresh = loader.source, loader.fresh
        loader.fresh = []
        if loader is not self._current and not source.beside:
            # One batch of another loader may be a look at it, or the rest of an evaluation.
            if source.trial is None:
                source.trial = fresh
                loader.trained = True
                return
            source.beside = True
            fresh, source.trial = source.trial + fresh, None
        elif source.trial is not None:  # it was read first, and now it is read last
            fresh, source.trial = source.trial + fresh, None
            source.beside = True
        source.first = source.first or not loader.trained
        loader.trained = True
        if source.beside or source.parallel:
            self._take(source, fresh)
        else:
            source.followed += fresh
            source.last = loader

    def _group(self, source: Source) -> list[int]:
        """Those of the batches since the last step that were trained on."""
        fresh, source.followed = source.followed, []
        first, source.first = source.first, False
        shape = len(fresh), self._backwards
        steady = source.shapes == {shape}
        source.shapes.add(shape)
        if source.grouped is not None:
            source.broken += shape != source.grouped
            return fresh
        if shape[0] <= shape[1]:
            return fresh
        if steady:  # as many more as before: all of them, and those that were held then
            source.grouped = shape
            fresh, source.suspects = source.suspects + fresh, []
            source.last.held = []
            return fresh
        more = shape[0] - shape[1]
        if first:
            source.suspects = source.last.held = fresh[:more]
        else:
            self._give_up(fresh[:more])  # skipped by `continue`
        return fresh[more:]

    def _take(self, source: Source, samples: list[int]) -> None:
        self.loads = True
        # The rest of one pass and the begin of the next are of one loader; those beside it have places of their own.
        place = 1 + [one for one in self._sources if one.beside].index(source) if source.beside else 0
        while len(self._taken) <= place:
            self._taken.append([])
        self._taken[place] += samples

    def _give_up(self, batches: list[int]) -> None:
        self.evaluated += sum(batches)

    def _end_trial(self, source: Source) -> None:
        if source.trial is not None:
            source.dropped[0] += 1
            source.dropped[1] += sum(source.trial)
            self._give_up(source.trial)
            source.trial = None

    def _settle_over(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            self._drop(over)

    def _drop(self, loader: LoaderState) -> None:
        """Counts its batches as evaluated: read, and not trained on."""
        self._give_up(loader.fresh)
        if not loader.trained:
            self.idle.append((loader.began_ns, loader.last_ns))
        loader.fresh = []
        if loader in self._pending:
            self._pending.remove(loader)


class Updates:
    """The updates of all optimizers, and which of them are steps.

    With a loader, a step is the first update on new data. Without one it begins when an optimizer updates that has done
    so in this step already; one that joined a step and goes on alone has begun another training, so that was a step.
    """

    def __init__(self) -> None:
        self.each: list[list[Any]] = []  # name, parameters, updates
        self.stale = 0  # updates of an optimizer that had no new data since its last one
        self.joined: dict[int, int] = {}  # without a loader: updates in steps that another optimizer has begun
        self._place: dict[int, int] = {}
        self._seen: set[int] = set()
        self._guests: set[int] = set()
        self._last: int | None = None

    def made(self, key: int, name: str, size: int) -> None:
        """A new optimizer, maybe in the place of one that is gone."""
        self._place[key] = len(self.each)
        self.each.append([name, size, 0])
        self._seen.discard(key)

    def updated(self, key: int, fresh: bool, loads: bool) -> int:
        """An optimizer has stepped: how many steps that makes. `fresh`: on new data, where there is a loader."""
        place = self._place[key]
        self.each[place][2] += 1
        again, last = key in self._seen, self._last
        self._last = key
        if loads:
            if fresh:
                self._seen = {key}
                return 1
            self.stale += again
            self._seen.add(key)
            return 0
        if again:
            late = key in self._guests and last == key
            if late:
                self.joined[place] -= 1
            self._seen, self._guests = {key}, set()
            return 1 + late
        self._seen.add(key)
        if len(self._seen) == 1:
            return 1
        self._guests.add(key)
        self.joined[place] = self.joined.get(place, 0) + 1
        return 0

    def counted(self, steps: int, loads: bool) -> dict[str, Any]:
        used = [one for one in self.each if one[2]]
        largest = sorted(used, key=lambda one: -one[1])[:_MOST_NAMED]
        uneven = [] if loads else [joined for joined in self.joined.values() if 0 < joined < 0.99 * steps]
        return {
            "updates": steps + self.stale,
            "each": largest,
            "optimizers": len(used),
            "uneven": max(uneven, default=0),
        }
