"""Hooks in JAX for unmodified programs: functions made by `jax.jit` and `jax.pmap` in which optax updates parameters.

What a compiled function does is seen once, while it is traced. So a function in whose trace `optax.apply_updates` is
called is a step of training, each time it is called; flax's TrainState and Optimizer call it too. Other compiled
functions that are called between two steps are evaluation, unless they are called in every step.
"""

from __future__ import annotations

import functools
import os
from time import monotonic_ns
from typing import Any, Callable

from trainmark_batch_size import first_size, sizes_in, tokens_in  # type: ignore[import-not-found]
from trainmark_exec_events import ExecEvents  # type: ignore[import-not-found]
from trainmark_hook_guard import guard_of  # type: ignore[import-not-found]

_LOOPS = ("scan", "fori_loop", "while_loop", "map")
_installed: list[JaxEvents] = []


def install(module: Any, spools: str, config: str, began_ns: int = 0) -> None:
    """Called once for jax and once for optax, when they have been imported."""
    if module.__name__ == "jax":
        events = JaxEvents(module, spools, config, began_ns)
        events.say("jax %d %s" % (os.getpid(), module.__version__))
        _installed.append(events)
        for name in ("jit", "pmap"):
            setattr(module, name, _watched_maker(getattr(module, name), events, name == "pmap"))
        for name in _LOOPS:
            setattr(module.lax, name, _watched_loop(getattr(module.lax, name), events))
        os.register_at_fork(after_in_child=events.forked)
    elif _installed:
        module.apply_updates = _watched_update(module.apply_updates, _installed[0])


class JaxEvents(ExecEvents):  # type: ignore[misc]
    """The events of this process."""

    def __init__(self, jax: Any, spools: str, config: str, began_ns: int) -> None:
        super().__init__(jax, spools, config, began_ns)
        self._jax = jax
        self.stack: list[Compiled] = []  # functions that are being called, outermost first
        self.loops = 0  # loops of JAX that are being traced
        self._result: Any = None  # of the last call, to wait for
        self._other: list[int] = []  # when calls of other functions began and ended since the last step
        self._other_result: Any = None
        self._unsure = 0

    def device(self) -> tuple[str, Callable[[], Any] | None]:
        # JAX runs behind the program on a CPU as well.
        platform = self._jax.default_backend()
        return ("cpu (async)" if platform == "cpu" else platform), self._wait

    def _wait(self) -> None:
        self._jax.block_until_ready(self._result)

    def world(self) -> tuple[int | None, int]:
        if self._jax.process_count() > 1:
            return self._jax.process_index(), self._jax.process_count()
        found: tuple[int | None, int] = super().world()
        return found

    def called(self, function: Compiled, arguments: tuple[Any, ...], result: Any, began_ns: int) -> None:
        """An outermost compiled function has returned; its work may still go on."""
        if not function.updates:
            if self._recorder is not None:
                self._other = [self._other[0] if self._other else began_ns, monotonic_ns()]
                self._other_result = result
            return
        if self._recorder is None:
            self.open(began_ns)
            self._updates.made(id(function), function.name, 0)
        samples, sure = function.samples(self._jax, arguments, result, self.tokens)
        counted = samples if self._counter.batch is None else self._counter.batch
        if not sure:
            self._unsure += max(1, samples)
        # For the scorer: as a loader's batches, so that what the user says is held against it.
        self._more.update(loaders=[[self._counter.steps + 1, self._counter.samples + counted]], unsure=self._unsure)
        self._counter.steps += 1
        self._counter.samples += counted
        self._updates.updated(id(function), True, True)
        self._result = result
        self.write_step(counted, 0, function.loss(result))

    def before_step(self) -> None:
        """A step is about to begin: what other functions did since the last one has ended when its result is there."""
        if self._other and self._recorder is not None:
            self._jax.block_until_ready(self._other_result)
            self._quiet.add(self._other[0], monotonic_ns(), False)
        self._other, self._other_result = [], None


class Compiled:
    """A function that JAX compiles, called through this."""

    def __init__(self, own: Any, events: JaxEvents, mapped: bool) -> None:
        functools.update_wrapper(self, own)
        self._own, self._events, self._mapped = own, events, mapped
        self._guard = guard_of(events)
        self.name = getattr(own, "__name__", "jit")
        self.updates = False  # parameters are updated in it
        self.looped = False  # in a loop of JAX, so that nobody knows how often
        self._state: set[int] = set()  # leaves of the last result
        self._data: list[int] | None = None  # arguments that are no part of it: the batch
        self._calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        events = self._events
        if events.stack or not events.on:
            return self._own(*args, **kwargs)
        if self.updates:
            self._guard(events.before_step)
        events.stack.append(self)
        began = monotonic_ns()
        try:
            result = self._own(*args, **kwargs)
        finally:
            events.stack.pop()
        self._guard(events.called, self, (*args, *kwargs.values()), result, began)
        return result

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_own"], name)

    def samples(self, jax: Any, arguments: tuple[Any, ...], result: Any, tokens: bool) -> tuple[int, bool]:
        """Of the arguments that do not come out of the call before, as parameters and states of optimizers do."""
        self._calls += 1
        leaves = jax.tree_util.tree_leaves
        if self._data is None and self._calls > 1:
            kept = [index for index, one in enumerate(arguments) if not self._from_before(leaves(one))]
            self._data = [index for index in kept if first_size(arguments[index]) is not None]
        self._state = {id(leaf) for leaf in leaves(result)}
        # In the first call all of them are new; the last argument is the batch by custom.
        chosen = [arguments[index] for index in self._data] if self._data is not None else list(arguments[-1:])
        chosen = [one for one in chosen if not _is_key(one)]
        if tokens:
            found = [tokens_in(one) for one in chosen]
            known = [one for one in found if one is not None]
            return (known[0], not self.looped) if known else (0, False)
        sizes = {size for place, size in sizes_in(chosen) if place[-1] == "rows"}
        if len(sizes) != 1:
            return max(sizes, default=0), False
        rows = sizes.pop()
        if self._mapped:
            columns = {size for place, size in sizes_in(chosen) if place[-1] == "columns"}
            return rows * (min(columns) if columns else 1), len(columns) == 1 and not self.looped
        return rows, not self.looped

    def _from_before(self, leaves: list[Any]) -> bool:
        return bool(leaves) and any(id(leaf) in self._state for leaf in leaves)

    def loss(self, result: Any) -> Any:
        """The one number of the result that is called a loss, or that stands alone; None where it cannot be told."""
        if not isinstance(result, tuple):
            return None
        for part in reversed(result):
            if isinstance(part, dict) and "loss" in part:
                part = part["loss"]
            if getattr(part, "shape", None) == () and "float" in str(getattr(part, "dtype", "")):
                return part
        return None


def _is_key(value: Any) -> bool:
    """A key of random numbers: of a type of its own, or two plain words."""
    kind = str(getattr(value, "dtype", ""))
    return kind.startswith("key<") or (kind == "uint32" and getattr(value, "shape", ()) == (2,))


def _watched_maker(original: Any, events: JaxEvents, mapped: bool) -> Any:
    def make(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        # Without a function it gives a decorator.
        if not args:
            return lambda function: Compiled(made(function), events, mapped)
        return Compiled(made, events, mapped)

    return functools.wraps(original)(make)


def _watched_loop(original: Any, events: JaxEvents) -> Any:
    def loop(*args: Any, **kwargs: Any) -> Any:
        events.loops += 1
        try:
            return original(*args, **kwargs)
        finally:
            events.loops -= 1

    return functools.wraps(original)(loop)


def _watched_update(original: Any, events: JaxEvents) -> Any:
    def apply_updates(*args: Any, **kwargs: Any) -> Any:
        if events.stack:
            events.stack[0].updates = True
            events.stack[0].looped = events.stack[0].looped or events.loops > 0
        return original(*args, **kwargs)

    return functools.wraps(original)(apply_updates)
