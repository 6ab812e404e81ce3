"""Counting one log's lines as a script of DLPerf does."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence

from trainmark.interop.dlperf.scripts import DlPerfJob, Script, epochs, thousand
from trainmark.interop.reading.patterns import LONGEST_RECORD, seconds_of

_PER_STEP = {"paddle-resnet50"}
_ROUNDED = {"arcface", "partialfc"}


class Meter:
    """Counts one log's lines as the script does, and computes its number."""

    def __init__(self, script: Script, warmup: int, train: int, job: DlPerfJob) -> None:
        self._script, self._warmup, self._train, self._job = script, warmup, train, job
        self._value = re.compile(script.value)
        self._index = re.compile(script.index) if script.index else None
        self._values = array("d")
        self._done = False
        self._step = 0
        self._edge: dict[int, float] = {}
        self._tests = self._edge_tests()

    def line(self, text: str) -> None:
        if self._done or len(text) > LONGEST_RECORD:
            return
        script = self._script
        if script.formula is epochs:
            self._mindspore(text)
            return
        for need in script.needs:
            if need not in text:
                return
        if self._index is not None:
            found = self._index.search(text)
            if not found or int(found[1]) <= script.least:
                return
        found = self._value.search(text)
        if found is None:
            return
        value = self._number(found[1])
        if value is None:
            return
        if self._tests is None:
            self._values.append(value)
        else:
            self._pick(text, value)

    def speed(self) -> float | None:
        """The script's number; None where it passes the file over. Raises Crash where it ends with an error."""
        values: Sequence[float] = self._values
        if self._tests is not None:
            values = [self._edge[place] for place in (0, 1) if place in self._edge]
        found = self._script.formula(values, self._warmup, self._train, self._job)
        return None if found is None else round(found, 2)

    def _number(self, text: str) -> float | None:
        script, job = self._script, self._job
        if script.kind != "number":
            return seconds_of(text)[0]
        try:
            value = float(text)
        except ValueError:
            return None
        if script.name in _ROUNDED:
            return round(value, 1) * (job.nodes if script.name == "arcface" else 1)
        if script.name == "gluon-bert":
            latency = round(value, 1)
            return 1000 / latency * job.samples if latency else None
        if script.name == "paddle-bert":
            # Nodes are not multiplied: the logs it was made for had done so.
            return value * job.cards * job.batch
        if script.name in _PER_STEP:
            return job.samples / value if value else None
        return value

    def _mindspore(self, text: str) -> None:
        if "epoch:" in text and "step:" in text:
            found = re.search(r"step: *(\d+)", text)
            epoch = re.search(r"epoch: *(\d+)", text)
            if found and epoch:
                times = int(epoch[1]) if self._script.name == "mindspore-resnet50" else 1
                self._step = int(found[1]) * times
                self._done = self._step > self._train
        elif "epoch time:" in text and self._step > self._warmup:
            found = self._value.search(text)
            value = self._number(found[1]) if found else None
            if value is not None:
                self._values.append(value)

    def _edge_tests(self) -> tuple[Callable[[str], object], Callable[[str], object]] | None:
        script = self._script
        if script.edges is None:
            return None
        if script.formula is thousand:
            return lambda _: not self._edge, self._thousand_later
        # Written as the log counts.
        shift = int(script.pattern.zero) - script.shift
        texts = [
            edge.replace("{}", str(at - shift))
            for edge, at in zip(script.edges, (self._warmup, self._train), strict=True)
        ]
        if script.framework == "oneflow":
            return re.compile(texts[0]).search, re.compile(texts[1]).search
        # A plain search: `Iteration: 10` is also found in `Iteration: 100`. That is the script's own fault.
        return lambda text: texts[0] in text, lambda text: texts[1] in text

    def _thousand_later(self, text: str) -> bool:
        return text.partition(" ")[0] == str(self._step + 1000)

    def _pick(self, text: str, value: float) -> None:
        first, last = self._tests  # type: ignore[misc]
        if first(text):
            self._edge[0] = value
            if self._script.formula is thousand:
                self._step = int(text.partition(" ")[0])
        elif last(text):
            self._edge[1] = value
            self._done = True
