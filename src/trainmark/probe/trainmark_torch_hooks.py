"""Hooks in PyTorch for unmodified programs: loaders, backward passes, optimizers, the gradient scaler.

Loaded by `site/sitecustomize.py` when torch is imported. An error in a hook turns them off and is reported; it never
reaches the program.
"""

from __future__ import annotations

import functools
import os
import sys
from time import monotonic_ns
from typing import Any, Callable
from weakref import WeakKeyDictionary

from trainmark_batch_size import BatchSize  # type: ignore[import-not-found]
from trainmark_hook_guard import guard_of  # type: ignore[import-not-found]
from trainmark_step_counter import Source  # type: ignore[import-not-found]
from trainmark_torch_events import LoaderIterator, TorchEvents  # type: ignore[import-not-found]


def install(torch: Any, spools: str, config: str, began_ns: int = 0) -> None:
    """Puts the hooks in place; called once, when torch has been imported."""
    events = TorchEvents(torch, spools, config, began_ns)
    events.say("torch %d %s" % (os.getpid(), torch.__version__))
    guard = guard_of(events)
    _hook_loaders(torch, events, guard)
    _hook_modes(torch, events, guard)
    # torch.compile must not trace this. Its compiler is imported at the first call, as by any optimizer of torch.
    guard = getattr(torch, "_disable_dynamo", lambda call: call)(guard)
    _hook_optimizers(events, guard)
    _hook_scaler(events, guard)
    _hook_backward(torch, events, guard)
    os.register_at_fork(after_in_child=events.forked)


def _hook_optimizers(events: TorchEvents, guard: Callable[..., Any]) -> None:
    module = sys.modules["torch.optim.optimizer"]
    original = module.Optimizer.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        guard(events.made, self)

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
        guard(events.stepped, optimizer)

    module.Optimizer.__init__ = functools.wraps(original)(made)
    module.register_optimizer_step_post_hook(stepped)


def _hook_scaler(events: TorchEvents, guard: Callable[..., Any]) -> None:
    older = sys.modules.get("torch.cuda.amp.grad_scaler")  # where torch 2.2 has it
    scaler = sys.modules.get("torch.amp.grad_scaler", older).GradScaler  # type: ignore[union-attr]
    step, scale = scaler.step, scaler.scale

    def watched_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        guard(events.scaler_steps)
        result = step(self, optimizer, *args, **kwargs)
        guard(events.scaler_stepped, optimizer)
        return result

    def watched_scale(self: Any, outputs: Any) -> Any:
        if self._enabled:
            guard(events.scaled, outputs)
        return scale(self, outputs)

    scaler.step = functools.wraps(step)(watched_step)
    scaler.scale = functools.wraps(scale)(watched_scale)


def _hook_loaders(torch: Any, events: TorchEvents, guard: Callable[..., Any]) -> None:
    iterator = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter
    original, following = iterator.__init__, iterator.__next__
    reset, draw = iterator._reset, iterator._next_index
    sources: WeakKeyDictionary[Any, Source] = WeakKeyDictionary()

    def made(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        self._trainmark = LoaderIterator(sources.setdefault(loader, Source()), _size(torch, events, loader))
        original(self, loader, *args, **kwargs)

    def restarted(self: Any, *args: Any, **kwargs: Any) -> None:
        state = self.__dict__.get("_trainmark")
        if state is not None:
            guard(events.restarted, state)
        reset(self, *args, **kwargs)

    def drawn(self: Any) -> Any:
        index = draw(self)
        state = self.__dict__.get("_trainmark")
        if state is not None and state.size.drawn is not None:
            state.size.drawn.append(len(index))
        return index

    def fetch(self: Any) -> Any:
        state = self.__dict__.get("_trainmark")
        if state is None:
            state = self._trainmark = LoaderIterator(None, BatchSize(tokens=events.tokens))
        learning = guard(events.fetch, state)
        asked = monotonic_ns()
        try:
            batch = following(self)
        except StopIteration:
            guard(events.ended, state)
            raise
        guard(events.fetched, state, batch, learning or 0, asked)
        return batch

    iterator.__init__ = functools.wraps(original)(made)
    iterator.__next__ = functools.wraps(following)(fetch)
    iterator._reset = functools.wraps(reset)(restarted)
    iterator._next_index = functools.wraps(draw)(drawn)


def _size(torch: Any, events: TorchEvents, loader: Any) -> BatchSize:
    """How the batches of a loader are counted. Its sampler draws lists of indices where it makes batches of a dataset
    with an index; their order is that of the batches."""
    batches = getattr(loader, "batch_sampler", None)
    sizes = [getattr(one, "batch_size", None) for one in (loader, batches)]
    size = next((size for size in sizes if isinstance(size, int)), None)
    indexed = not isinstance(loader.dataset, torch.utils.data.IterableDataset)
    sampled = indexed and batches is not None and getattr(loader, "in_order", True)
    return BatchSize(size, sampled, events.tokens)


def _hook_backward(torch: Any, events: TorchEvents, guard: Callable[..., Any]) -> None:
    original = torch.autograd.backward
    depth = [0]

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not depth[0]:  # gradient checkpointing calls it again from inside, on whatever thread
            guard(events.backward, tensors)
        depth[0] += 1
        try:
            return original(tensors, *args, **kwargs)
        finally:
            depth[0] -= 1

    torch.autograd.backward = functools.wraps(original)(backward)


def _hook_modes(torch: Any, events: TorchEvents, guard: Callable[..., Any]) -> None:
    original = torch.nn.Module.train

    def train(self: Any, mode: bool = True) -> Any:
        if events.training_mode != bool(mode):  # the modules inside of it are told one by one
            guard(events.mode, bool(mode))
        return original(self, mode)

    torch.nn.Module.train = functools.wraps(original)(train)
    for quiet in (torch.no_grad, torch.inference_mode):
        _hook_quiet(quiet, events, guard)


def _hook_quiet(quiet: Any, events: TorchEvents, guard: Callable[..., Any]) -> None:
    enter, leave = quiet.__enter__, quiet.__exit__

    def watched_enter(self: Any) -> Any:
        if not _by_torch(sys._getframe(1)):
            self._trainmark = True
            guard(events.quiet)
        return enter(self)

    def watched_exit(self: Any, *error: Any) -> Any:
        if self.__dict__.pop("_trainmark", False):
            guard(events.loud)
        return leave(self, *error)

    quiet.__enter__ = functools.wraps(enter)(watched_enter)
    quiet.__exit__ = functools.wraps(leave)(watched_exit)


def _by_torch(caller: Any) -> bool:
    """Whether torch itself turns gradients off, as when it clips them: that is a part of a step."""
    module = caller.f_globals.get("__name__", "")
    if module == "torch.utils._contextlib":  # a function that is decorated with it
        module = getattr(caller.f_locals.get("func"), "__module__", None) or ""
    return bool(module.startswith("torch."))
