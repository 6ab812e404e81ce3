"""Watches PyTorch from inside an unmodified program: loaders, backward passes, optimizers, the gradient scaler.

Loaded by `site/sitecustomize.py` when torch is imported. A fault of these hooks turns them off and is told; it never
reaches the program.
"""

from __future__ import annotations

import functools
import os
import sys
from time import monotonic_ns

from trainmark_ledger import Source  # type: ignore[import-not-found]
from trainmark_watch import Watch  # type: ignore[import-not-found]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def install(torch: Any, spools: str, config: str) -> None:
    """Puts the hooks in place; called once, when torch has been imported."""
    watch = Watch(torch, spools, config)
    watch.say("torch %d %s" % (os.getpid(), torch.__version__))
    guard = _guard(watch)
    _hook_loaders(watch, guard)
    # torch.compile shall not look inside. Its compiler is imported at the first call, as by any optimizer of torch.
    guard = getattr(torch, "_disable_dynamo", lambda call: call)(guard)
    _hook_optimizers(watch, guard)
    _hook_scaler(watch, guard)
    _hook_backward(torch, watch, guard)
    _hook_modes(torch, watch)
    os.register_at_fork(after_in_child=watch.forked)


def _guard(watch: Watch) -> Callable[..., Any]:
    """Calls a part of the watch; when it fails, the watch is over."""

    def call(part: Callable[..., Any], *arguments: Any) -> Any:
        if watch.on:
            try:
                return part(*arguments)
            except Exception as error:
                watch.on = False
                text = "%s: %s" % (type(error).__name__, error)
                sys.stderr.write("trainmark: training is no longer measured: %s\n" % text)
                try:
                    watch.say("broken %d %s" % (os.getpid(), text))
                except OSError:
                    pass
        return None

    return call


def _hook_optimizers(watch: Watch, guard: Callable[..., Any]) -> None:
    module = sys.modules["torch.optim.optimizer"]
    original = module.Optimizer.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        guard(watch.made, self)

    def stepped(optimizer: Any, args: Any, kwargs: Any) -> None:  # noqa: ARG001
        guard(watch.stepped, optimizer)

    module.Optimizer.__init__ = functools.wraps(original)(made)
    module.register_optimizer_step_post_hook(stepped)


def _hook_scaler(watch: Watch, guard: Callable[..., Any]) -> None:
    older = sys.modules.get("torch.cuda.amp.grad_scaler")  # where torch 2.2 has it
    scaler = sys.modules.get("torch.amp.grad_scaler", older).GradScaler  # type: ignore[union-attr]
    step, scale = scaler.step, scaler.scale

    def watched_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        guard(watch.scaler_steps)
        result = step(self, optimizer, *args, **kwargs)
        guard(watch.scaler_stepped, optimizer)
        return result

    def watched_scale(self: Any, outputs: Any) -> Any:
        if self._enabled:
            guard(watch.scaled, outputs)
        return scale(self, outputs)

    scaler.step = functools.wraps(step)(watched_step)
    scaler.scale = functools.wraps(scale)(watched_scale)


def _hook_loaders(watch: Watch, guard: Callable[..., Any]) -> None:
    iterator = sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter
    original, following = iterator.__init__, iterator.__next__

    def made(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        samplers = (loader, getattr(loader, "batch_sampler", None))
        sizes = [getattr(sampler, "batch_size", None) for sampler in samplers]
        self._trainmark = Source(next((size for size in sizes if isinstance(size, int)), None))
        original(self, loader, *args, **kwargs)

    def give(self: Any) -> Any:
        source = self.__dict__.get("_trainmark")
        if source is None:
            source = self._trainmark = Source()
        learning = guard(watch.fetch, source)
        asked = monotonic_ns()
        try:
            batch = following(self)
        except StopIteration:
            guard(watch.ended, source)
            raise
        guard(watch.fetched, source, batch, learning, asked)
        return batch

    iterator.__init__ = functools.wraps(original)(made)
    iterator.__next__ = functools.wraps(following)(give)


def _hook_backward(torch: Any, watch: Watch, guard: Callable[..., Any]) -> None:
    original = torch.autograd.backward
    depth = [0]

    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if not depth[0]:  # gradient checkpointing calls it again from inside, on whatever thread
            guard(watch.backward, tensors)
        depth[0] += 1
        try:
            return original(tensors, *args, **kwargs)
        finally:
            depth[0] -= 1

    torch.autograd.backward = functools.wraps(original)(backward)


def _hook_modes(torch: Any, watch: Watch) -> None:
    original = torch.nn.Module.train

    def train(self: Any, mode: bool = True) -> Any:
        watch.training_mode = bool(mode)
        return original(self, mode)

    torch.nn.Module.train = functools.wraps(original)(train)
