"""What changes over a round: losses, evaluations and speed by step, for tools that draw curves."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trainmark.interop.writing.runs import Clock, Done, Heard, real

# Points of speed: a pair of steps apart by less than this is noise.
_LEAST_SECONDS = 1.0


class Point(msgspec.Struct, frozen=True):
    name: str
    step: int
    value: float
    # Milliseconds since 1970.
    t_ms: int


def points(done: Done) -> Iterator[Point]:
    """Of the first rank, which speaks for the round; speed is of all ranks, and left out where reports withhold it."""
    shown = done.score().reason is None
    for _, _, folder in done.nodes()[:1]:
        clock, times = Clock(), dict[int, int]()
        speed = _Speed(done)
        for event in done.heard(folder):
            clock.hear(event)
            if event.rank != 0:
                continue
            t_ms = clock.ms(0, event.t)
            if event.k == "STEP_END" and event.step is not None:
                times[event.step] = t_ms
                yield from _loss(event.step, event.loss, t_ms)
                if shown:
                    yield from speed.hear(event, t_ms)
            elif event.k == "LOSS" and isinstance(event.values, list):
                for step, loss in zip(event.steps, event.values, strict=False):
                    yield from _loss(step, loss, times.get(step, t_ms))
            elif event.k in ("EVALUATE", "INIT_EVALUATION") and isinstance(event.values, dict):
                for name, value in event.values.items():
                    figure = real(value)
                    if figure is not None:
                        yield Point(f"evaluate/{name}", event.step or 0, figure, t_ms)
            elif event.k == "INIT_START":
                speed.scale = 1 if event.scope == "global" else done.case.world or 1


def _loss(step: int, loss: object, t_ms: int) -> Iterator[Point]:
    value = real(loss)
    if value is not None:
        yield Point("train/loss", step, value, t_ms)


class _Speed:
    """Samples per second over stretches of at least a second."""

    def __init__(self, done: Done) -> None:
        self.scale = 1
        self._name = f"train/{done.case.unit}_per_second"
        self._since: int | None = None
        self._samples = 0

    def hear(self, event: Heard, t_ms: int) -> Iterator[Point]:
        if self._since is None:
            self._since = t_ms
            return
        self._samples += (event.n or 0) * self.scale
        seconds = (t_ms - self._since) / 1000
        if seconds >= _LEAST_SECONDS:
            yield Point(self._name, event.step or 0, self._samples / seconds, t_ms)
            self._since, self._samples = t_ms, 0
