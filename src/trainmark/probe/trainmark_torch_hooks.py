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

from trainmark_step_counter import LoaderState  # type: ignore[import-not-found]
from trainmark_torch_events import TorchEvents  # type: ignore[import-not-found]


def install(torch: Any, spools: str, config: str) -> None:
    """Puts the hooks in place; called once, when torch has been imported."""
    events = TorchEvents(torch, spools, config)
    events.say("torch %d %s" % (os.getpid(), torch.__version__))
    guard = _guard(events)
    _hook_loaders(events, guard)
    # torch.compile must not trace this. Its compiler is imported at the first call, as by any optimizer of torch.
    guard = getattr(torch, "_disable_dynamo", lambda call: call)(guard)
    _hook_optimizers(events, guard)
    _hook_scaler(events, guard)
    _hook_backward(torch, events, guard)
    _hook_modes(torch, events)
    os.register_at_fork(after_in_child=events.forked)


def _guard(events: TorchEvents) -> Callable[..., Any]:
    """Calls a method of `events`; after an error nothing more is recorded."""

    def call(part: Callable[..., Any], *arguments: Any) -> Any:
        if events.on:
            try:
                return part(*arguments)
            except Exception as error:
                events.on = False
                text = "%s: %s" % (type(error).__name__, error)
                sys.stderr.write("trainmark: training is no longer measured: %s\n" % text)
                try:
                    events.say("broken %d %s" % (os.getpid(), text))
                except OSError:
                    pass
        return None

    return call


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


def _hook_loaders(events: TorchEvents, guard: Callable[..., Any]) -> None:
    iterator = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter
    original, following = iterator.__init__, iterator.__next__

    def made(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        samplers = (loader, getattr(loader, "batch_sampler", None))
        sizes = [getattr(sampler, "batch_size", None) for sampler in samplers]
        self._trainmark = LoaderState(next((size for size in sizes if isinstance(size, int)), None))
        original(self, loader, *args, **kwargs)

    def fetch(self: Any) -> Any:
        state = self.__dict__.get("_trainmark")
        if state is None:
            state = self._trainmark = LoaderState()
        learning = guard(events.fetch, state)
        asked = monotonic_ns()
        try:
            batch = following(self)
        except StopIteration:
            guard(events.ended, state)
            raise
        guard(events.fetched, state, batch, learning, asked)
        return batch

    iterator.__init__ = functools.wraps(original)(made)
    iterator.__next__ = functools.wraps(following)(fetch)


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


def _hook_modes(torch: Any, events: TorchEvents) -> None:
    original = torch.nn.Module.train

    def train(self: Any, mode: bool = True) -> Any:
        events.training_mode = bool(mode)
        return original(self, mode)

    torch.nn.Module.train = functools.wraps(original)(train)
