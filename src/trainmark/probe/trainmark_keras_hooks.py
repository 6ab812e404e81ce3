"""Hooks in Keras for unmodified programs: a callback of its own in every `Model.fit`.

Keras tells the callback of each batch and each evaluation. How many samples a batch has is told by the arguments of
`fit`: the length of an array and `batch_size`, or a first dimension that a data set has for all its batches.
"""

from __future__ import annotations

import functools
import os
from time import monotonic_ns
from typing import Any, Callable

from trainmark_batch_size import first_size  # type: ignore[import-not-found]
from trainmark_exec_events import ExecEvents  # type: ignore[import-not-found]
from trainmark_hook_guard import guard_of  # type: ignore[import-not-found]

_USUAL = 32  # Keras' own batch_size


def install(keras: Any, spools: str, config: str, began_ns: int = 0) -> None:
    """Called once, when keras has been imported."""
    events = KerasEvents(keras, spools, config, began_ns)
    events.say("keras %d %s" % (os.getpid(), keras.__version__))
    guard = guard_of(events)
    original = keras.Model.fit
    callback = _callback(keras, events, guard)

    def fit(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        sizes = guard(_sizes, x, args, kwargs)
        if len(args) < 5 and events.on:  # `callbacks` is the fifth one after x
            given = kwargs.get("callbacks") or []
            given = list(given) if isinstance(given, (list, tuple)) else [given]
            kwargs["callbacks"] = [*given, callback(sizes)]
        return original(self, x, *args, **kwargs)

    keras.Model.fit = functools.wraps(original)(fit)
    os.register_at_fork(after_in_child=events.forked)


class KerasEvents(ExecEvents):  # type: ignore[misc]
    """The events of this process."""

    def device(self) -> tuple[str, Callable[[], Any] | None]:
        return "cpu", None  # Keras reads the losses of each batch before it tells of it

    def begin(self, model: Any) -> None:
        name = type(getattr(model, "optimizer", None)).__name__
        self._updates.made(id(model), name, int(model.count_params()) if model.built else 0)
        self.open(monotonic_ns())

    def stepped(self, model: Any, samples: int, steps: int) -> None:
        for _ in range(steps):
            self._counter.steps += 1
            counted = samples if self._counter.batch is None else self._counter.batch
            self._counter.samples += counted
            self._more["loaders"] = [[self._counter.steps, self._counter.samples]] if samples else []
            self._updates.updated(id(model), True, True)
            self.write_step(counted, 0, None)

    def epoch(self, loss: Any) -> None:
        """Keras tells the mean loss of an epoch."""
        if self._recorder is not None and isinstance(loss, float):
            self._recorder._losses.append((self._recorder._step, loss))

    def evaluated(self, began_ns: int) -> None:
        if self._recorder is not None:
            self._recorder.were_evaluating([(began_ns, monotonic_ns())])


def _callback(keras: Any, events: KerasEvents, guard: Callable[..., Any]) -> Any:
    class Watch(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, sizes: tuple[int, int] | None) -> None:
            super().__init__()
            self._sizes = sizes
            self._done = 0
            self._test_since = 0

        def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
            guard(events.begin, self.model)

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            self._done = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            steps, self._done = batch + 1 - self._done, batch + 1
            guard(events.stepped, self.model, _size(self._sizes, batch), steps)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
            guard(events.epoch, (logs or {}).get("loss"))

        def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
            self._test_since = monotonic_ns()

        def on_test_end(self, logs: Any = None) -> None:  # noqa: ARG002
            guard(events.evaluated, self._test_since)

    return Watch


def _size(sizes: tuple[int, int] | None, batch: int) -> int:
    """Samples of a batch of an epoch; 0 for unknown. `sizes`: of a batch, and of all of an epoch (0: no last one)."""
    if sizes is None:
        return 0
    each, whole = sizes
    left = whole - batch * each
    return each if not whole or left >= each else max(left, 0)


def _sizes(x: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, int] | None:
    given = args[1] if len(args) > 1 else kwargs.get("batch_size")
    spec = getattr(x, "element_spec", None)
    if spec is not None:  # a data set of TensorFlow tells the sizes it is sure of
        first = spec[0] if isinstance(spec, tuple) else spec
        first = next(iter(first.values())) if isinstance(first, dict) else first
        rows = first.shape[0] if getattr(first, "shape", None) is not None and len(first.shape) else None
        return (int(rows), 0) if rows is not None else None
    arrays = hasattr(x, "shape") or isinstance(x, (list, tuple, dict))
    whole = first_size(x) if arrays else None  # of a generator or a PyDataset nobody knows
    return None if whole is None else (given or _USUAL, _kept(whole, kwargs))


def _kept(whole: int, kwargs: dict[str, Any]) -> int:
    """Samples that are trained on: the rest is for validation."""
    split = kwargs.get("validation_split") or 0.0
    return int(whole * (1.0 - split)) if split else whole
