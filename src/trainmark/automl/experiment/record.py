"""What an experiment did, read from the events of its run.

Workers write an event for every epoch, and a worker that goes on with a trial repeats those of the epochs before. An
epoch is identified by its trial, training and number, so it counts once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainmark.reasons import Reason
from trainmark.store.files import BROKEN
from trainmark.store.rundir import EVENTS, RunDir, node_name

_MARK = b'"automl_'
_PIECE = 8 << 20


class Epoch(msgspec.Struct, frozen=True):
    """One epoch that was done to its end; times are Unix time."""

    trial: int
    run: int
    epoch: int
    accuracy: float
    loss: float
    val_loss: float
    begin: float
    end: float
    images: int
    flops: dict[str, float]
    host: str = ""


class WorkerFacts(msgspec.Struct, frozen=True):
    slot: int
    device: str
    dtype: str
    batch: int
    data: str
    wall: float
    memory_gib: float | None = None
    ranks: int = 1
    threads: int | None = None
    torch: str = ""
    train_images: int = 0
    test_images: int = 0
    pretrained: bool = False
    device_name: str = ""
    host: str = ""


class Begin(msgspec.Struct, frozen=True):
    """A worker began with a trial; there are several where one was lost."""

    number: int
    wall: float
    round: int
    key: str
    file: str = ""
    parent: int | None = None
    moves: tuple[Any, ...] = ()
    owner: str = ""
    host: str = ""


class End(msgspec.Struct, frozen=True):
    number: int
    wall: float
    value: float | None
    pruned: bool = False
    # Text in records of older versions.
    why: Reason | str | None = None
    generate_cpu_s: float | None = None
    # Of the network that was trained best.
    parameters: int | None = None
    operations: float | None = None
    values: dict[str, float | int | str | None] = {}
    # Whether it began with its parent's weights; None in records of older versions.
    inherited: bool | None = None


class Gap(msgspec.Struct, frozen=True):
    """Seconds without work between two trials of a worker."""

    before: int
    after: int
    seconds: float


class Pretrained(msgspec.Struct, frozen=True):
    """A network that began with weights from a file, and its accuracy before its first step."""

    trial: int
    source: str
    tensors: int
    accuracy: float
    # Tensors of the classifier, which the file has for other classes.
    drawn: tuple[str, ...] = ()


class Record(msgspec.Struct):
    workers: list[WorkerFacts] = []
    begins: list[Begin] = []
    ends: list[End] = []
    gaps: list[Gap] = []
    pretrained: list[Pretrained] = []
    epochs: list[Epoch] = []
    # Events of epochs that were on record already.
    repeated: int = 0
    unreadable: int = 0


class _Note(msgspec.Struct):
    k: str
    name: str = ""
    value: Any = None


_KINDS: dict[str, tuple[str, Any]] = {
    "automl_worker": ("workers", WorkerFacts),
    "automl_begin": ("begins", Begin),
    "automl_end": ("ends", End),
    "automl_gap": ("gaps", Gap),
    "automl_pretrained": ("pretrained", Pretrained),
    "automl_epoch": ("epochs", Epoch),
}


def read(run: RunDir) -> Record:
    """Everything on record, epochs by the time of their end."""
    return Reader(run).read()


class Reader:
    """Reads the record of a run again and again, each time only what is new.

    A worker writes an event for each step, too: 800 ranks make gigabytes of them in a day. So files are searched for
    the few lines that are ours, and only these are parsed.
    """

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._done: dict[Path, int] = {}
        self._found = Record()

    def read(self) -> Record:
        for file in sorted(self._run.path.glob(f"*/round*/attempt*/*/{EVENTS}")):
            host = node_name(file.parent).rpartition("_noderank")[0]
            done = self._done.get(file, 0)
            for data in _whole_lines(file, done):
                done += len(data)
                for line in _ours(data):
                    self._take(line, host)
            self._done[file] = done
        return _once(self._found)

    def _take(self, line: bytes, host: str) -> None:
        try:
            note = msgspec.json.decode(line, type=_Note)
            name, kind = _KINDS.get(note.name, ("", None))
            if kind is not None:
                value = {**note.value, "host": host} if "host" in kind.__struct_fields__ else note.value
                getattr(self._found, name).append(msgspec.convert(value, kind, strict=False))
        except (*BROKEN, TypeError):
            self._found.unreadable += 1


def _whole_lines(file: Path, begin: int) -> Iterator[bytes]:
    """What follows `begin`, in large pieces that end with a line."""
    size = _PIECE
    with file.open("rb", buffering=0) as data:
        data.seek(begin)
        while piece := data.read(size):
            whole = piece.rfind(b"\n") + 1
            if not whole and len(piece) < size:
                return
            # A line that is longer than a piece needs a larger one.
            size = _PIECE if whole else 2 * size
            yield piece[:whole]
            begin += whole
            data.seek(begin)


def _ours(data: bytes) -> Iterator[bytes]:
    at = data.find(_MARK)
    while at >= 0:
        end = data.find(b"\n", at)
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = data.find(_MARK, end)


def _once(found: Record) -> Record:
    events = sorted(found.epochs, key=lambda one: (one.end, one.trial, one.run, one.epoch))
    first: dict[tuple[int, int, int], Epoch] = {}
    for epoch in events:
        first.setdefault((epoch.trial, epoch.run, epoch.epoch), epoch)
    return msgspec.structs.replace(found, repeated=len(events) - len(first), epochs=list(first.values()))
