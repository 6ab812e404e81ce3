"""What lies on disk beside the ledger: graphs by their content, weights and checkpoints by their trial.

Everything is written whole or not at all, and read as data, never as code. Workers on several nodes share the folder.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.graph_json import decode, encode


class TrialFiles:
    def __init__(self, home: Path) -> None:
        self.home = home
        self._known: dict[str, Graph] = {}
        for name in ("graphs", "weights", "checkpoints"):
            (home / name).mkdir(parents=True, exist_ok=True)

    # ---- graphs

    def name(self, graph: Graph) -> str:
        """The hash of its content."""
        return hashlib.sha256(encode(graph)).hexdigest()[:32]

    def put_graph(self, graph: Graph) -> str:
        """Writes it, and returns its name."""
        name = self.name(graph)
        self._known[name] = graph
        path = self._graph(name)
        if not path.exists():
            _replace(path, encode(graph) + b"\n")
        return name

    def graph(self, name: str, text: str | None = None) -> Graph:
        """By its name; `text` is what the ledger has of it. A graph never changes, so it is read once."""
        if name not in self._known:
            path = self._graph(name)
            data = path.read_bytes() if text is None else text.encode()
            self._known[name] = decode(data, str(path))
        return self._known[name]

    def _graph(self, name: str) -> Path:
        return self.home / "graphs" / f"{name}.json"

    # ---- tensors

    def put_weights(self, trial: int, weights: dict[str, Any]) -> None:
        _save(self._weights(trial), weights)

    def weights(self, trial: int) -> dict[str, Any] | None:
        """The best weights of a trial; None when they were removed."""
        return _read(self._weights(trial))

    def prune_weights(self, useful: Iterable[int]) -> None:
        """Removes the weights of all trials but those."""
        names = {self._weights(trial).name for trial in useful}
        for path in (self.home / "weights").glob("*.pt"):
            if path.name not in names:
                path.unlink(missing_ok=True)

    def _weights(self, trial: int) -> Path:
        return self.home / "weights" / f"{trial}.pt"

    def put_checkpoint(self, trial: int, state: dict[str, Any]) -> None:
        _save(self._checkpoint(trial), state)

    def checkpoint(self, trial: int) -> dict[str, Any] | None:
        return _read(self._checkpoint(trial))

    def drop_checkpoint(self, trial: int) -> None:
        self._checkpoint(trial).unlink(missing_ok=True)

    def _checkpoint(self, trial: int) -> Path:
        return self.home / "checkpoints" / f"{trial}.pt"


def _replace(path: Path, data: bytes) -> None:
    half = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with half.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def _save(path: Path, state: dict[str, Any]) -> None:
    import io

    import torch

    buffer = io.BytesIO()
    torch.save(state, buffer)
    _replace(path, buffer.getvalue())


def _read(path: Path) -> dict[str, Any] | None:
    """None for a file that is not there or cannot be used: then the work is done again."""
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # torch.load raises whatever the bytes lead it to
        return None
    return found if isinstance(found, dict) else None
