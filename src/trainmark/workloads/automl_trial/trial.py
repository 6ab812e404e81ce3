"""A trial under way."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.automl.ledger.ledger import Entry
from trainmark.automl.search.hpo import Tried, Values


class Trial:
    """What is known of it: all of it is in its checkpoint, but for `unsaved`."""

    def __init__(self, entry: Entry, round_number: int, saved: dict[str, Any] | None) -> None:
        self.entry, self.round = entry, round_number
        saved = saved or {}
        # Trainings that are done, the values of the present one, and its epochs.
        self.tried = [Tried(one["values"], one["accuracy"]) for one in saved.get("tried", [])]
        self.values: Values = saved.get("values") or {}
        self.epochs: list[dict[str, Any]] = saved.get("epochs", [])
        self.best: float = saved.get("best", -1.0)
        self.best_run: int = saved.get("best_run", 0)
        self.model: dict[str, Any] | None = saved.get("model")
        self.optimizer: dict[str, Any] | None = saved.get("optimizer")
        self.scaler: dict[str, Any] | None = saved.get("scaler")
        self.pretrained: bool = saved.get("pretrained", False)
        self.inherited: bool = saved.get("inherited", False)
        # The best weights, as long as they are not saved.
        self.unsaved: dict[str, Any] | None = None

    @property
    def run(self) -> int:
        return len(self.tried)

    def of_run(self) -> list[dict[str, Any]]:
        return [epoch for epoch in self.epochs if epoch["run"] == self.run]

    def end_run(self) -> None:
        """The present training is over; the next has values of its own."""
        accuracies = [epoch["accuracy"] for epoch in self.of_run()]
        self.tried.append(Tried(self.values, max(accuracies, default=None)))
        self.values, self.model, self.optimizer, self.scaler = {}, None, None, None

    def record(self) -> dict[str, Any]:
        kept = ("values", "epochs", "best", "best_run", "model", "optimizer", "scaler", "pretrained", "inherited")
        return {"tried": msgspec.to_builtins(self.tried), **{name: getattr(self, name) for name in kept}}
