"""Inside a training process of a diagnostic round: traces some steps, or trains without sharing gradients.

TRAINMARK_DIAGNOSE is `MODE:SKIP:STEPS`, after which the process ends. Loaded only where that variable is set, by the
probe or by the hooks of an unmodified program. Never part of a timed round.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

VARIABLE = "TRAINMARK_DIAGNOSE"
# Names of marks in a trace, which its readers look for.
DATA_MARK = "trainmark:data"
PHASE_MARK = "trainmark:phase"
FOLDER = "trace"


class Diagnostic:
    """The diagnostic round of one rank. Mode `plain` only ends after as many steps as the others."""

    def __init__(self, text: str, rank: int, workdir: str) -> None:
        mode, skip, steps = text.split(":")
        self.mode = mode
        self._skip, self._steps = int(skip), int(steps)
        self._rank, self._workdir = rank, workdir
        self._done = 0
        self._profile: Any = None
        self._modules: set[int] = set()

    def begin(self) -> None:
        """Training begins. torch is imported by now, or there is nothing to trace."""
        torch = sys.modules.get("torch")
        if torch is None:
            return
        if self.mode == "trace":
            self._start(torch)
        elif self.mode == "alone":
            self._separate()

    def stepped(self) -> bool:
        """A step has ended: True when it was the last one."""
        self._done += 1
        if self._profile is not None:
            self._profile.step()
        return self._done >= self._skip + self._steps

    def facts(self) -> dict[str, Any]:
        """What the reader of this round must know."""
        return {"mode": self.mode, "skip": self._skip, "steps": self._steps, "separated": len(self._modules)}

    def leave(self) -> None:
        """Ends the process well, after a barrier: no rank may wait for one that has ended."""
        if self._profile is not None:
            self._profile.stop()
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            distributed.barrier()
        end_process()

    def mark(self, name: str) -> Any:
        """A `with` block that is seen in the trace under this name."""
        torch = sys.modules.get("torch")
        if self.mode != "trace" or torch is None:
            return None
        return torch.autograd.profiler.record_function(name)

    def _start(self, torch: Any) -> None:
        profiler = torch.profiler
        # The profiler is set up one step before the first that counts.
        plan = profiler.schedule(wait=max(0, self._skip - 1), warmup=min(1, self._skip), active=self._steps, repeat=1)
        self._profile = profiler.profile(schedule=plan, on_trace_ready=self._write)
        self._profile.start()

    def _write(self, profile: Any) -> None:
        folder = os.path.join(self._workdir, FOLDER)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "rank%d.json.gz" % self._rank)
        profile.export_chrome_trace(path + ".part.gz")  # whole or not at all
        os.replace(path + ".part.gz", path)

    def _separate(self) -> None:
        """Turns the sharing of gradients off: the time that steps then save is the cost of communication."""
        distributed = sys.modules.get("torch.nn.parallel.distributed")
        if distributed is None:
            return
        original, modules = distributed.DistributedDataParallel.forward, self._modules

        def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            modules.add(id(module))
            module.require_backward_grad_sync = False
            return original(module, *args, **kwargs)

        distributed.DistributedDataParallel.forward = forward


class _MarkedBlock:
    """A `with` block of the probe that is a mark in the trace, too."""

    __slots__ = ("_inner", "_mark")

    def __init__(self, inner: Any, mark: Any) -> None:
        self._inner = inner
        self._mark = mark

    def __enter__(self) -> None:
        self._inner.__enter__()
        self._mark.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._mark.__exit__(kind, error, trace)
        self._inner.__exit__(kind, error, trace)


def calls(recorder: Any, text: str, workdir: str) -> dict[str, Callable[..., Any]]:
    """The calls of the probe that differ in a diagnostic round."""
    diagnostic = Diagnostic(text, recorder._rank, workdir)

    def train_start() -> None:
        diagnostic.begin()
        recorder.train_start()

    def step(samples: int, loss: Any = None) -> None:
        recorder.step(samples, loss)
        if diagnostic.stepped():
            end(recorder, diagnostic)

    def span(name: str) -> Any:
        return marked(recorder.span(name), DATA_MARK if name == "data" else "trainmark:" + name)

    def phase(name: str) -> Any:
        return marked(recorder.phase(name), PHASE_MARK)

    def marked(inner: Any, name: str) -> Any:
        mark = diagnostic.mark(name)
        return inner if mark is None else _MarkedBlock(inner, mark)

    return {"train_start": train_start, "step": step, "span": span, "phase": phase}


def end(recorder: Any, diagnostic: Diagnostic) -> None:
    """After the last step: writes the last events and ends the process."""
    recorder.note("diagnostic", diagnostic.facts())
    recorder.train_end()
    recorder.finish()
    diagnostic.leave()


def end_process() -> None:
    """Ends the process well. Its other threads and its clean-up are not waited for."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass
    os._exit(0)
