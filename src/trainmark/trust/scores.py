"""AutoML experiments on a leaderboard: their scores, and the files that repeat them.

An experiment gives one figure. Nothing is known of chance, so they stand in the order of their figures, without places.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from trainmark.i18n.texts import label
from trainmark.report import document as doc
from trainmark.report import numbers
from trainmark.report.records import Report
from trainmark.store.rundir import Manifest
from trainmark.trust.board_entry import Entry, proof, shared

FOLDER = "experiments"
KIND = "automl"
# Where these lay on the machine that made the bundle, or who made it: of no use to anybody else.
_NOT_TOLD = ("author", "ledger", "weights", "val_data", "init_models")
_UNITS = {"regulated_score": "FLOPS", "score": "FLOPS", "error": "fraction", "experiment_seconds": "s"}


class Scored(Entry, frozen=True):
    """An experiment of a bundle. `figures`: by the names of `_UNITS`."""

    rules: str
    valid: bool
    device: str
    workers: int
    figures: dict[str, float]

    def headline(self) -> str:
        return f"{self.case} ({self.rules}): {self.shown('regulated_score')} on {self.system}"

    def shown(self, name: str) -> str:
        return quantity(self.figures, name)


def scored(report: Report, manifest: Manifest, about: Entry) -> list[Scored]:
    """None for a run that is no experiment, that got no score, or that nobody could repeat."""
    found = report.experiment
    known = known_figures(report)
    if found is None or "regulated_score" not in known or not files(manifest):
        return []
    first = manifest.plan.cases[0]
    return [
        Scored(
            **shared(about) | {"case": found.name},
            rules=found.rules,
            valid=found.valid,
            device=first.device,
            workers=len(report.cases),
            figures=known,
        )
    ]


def known_figures(report: Report) -> dict[str, float]:
    found = report.experiment
    values = {one.name: one.value for one in (found.figures if found is not None else ())}
    return {name: value for name in _UNITS if (value := values.get(name)) is not None}


def quantity(figures: dict[str, float], name: str) -> str:
    return numbers.quantity(figures.get(name), _UNITS[name])


def blocks(rows: Sequence[Scored]) -> list[doc.Block]:
    if not rows:
        return []
    ordered = sorted(rows, key=lambda row: (row.rules, -row.figures["regulated_score"]))
    table = doc.Table(_COLUMNS, [_cells(row) for row in ordered], style="board")
    return [
        doc.Heading(label("board.experiments")),
        doc.Group([table], style="flush"),
        doc.Paragraph(label("board.experiments_how"), small=True),
    ]


_COLUMNS = [
    doc.Column(label("board.experiment"), figures=False, filter=True),
    doc.Column(label("am.rules"), figures=False, filter=True),
    doc.Column(label("m.regulated_score")),
    doc.Column(label("m.score")),
    doc.Column(label("m.error")),
    doc.Column(label("m.experiment_seconds")),
    doc.Column(label("board.system"), figures=False, filter=True),
    doc.Column(label("board.device"), figures=False, filter=True),
    doc.Column(label("am.workers")),
    doc.Column(label("board.proof"), figures=False),
    doc.Column(label("board.again"), figures=False),
]


def _cells(row: Scored) -> list[doc.Inline]:
    return [
        row.case,
        doc.Stack(row.rules, label("am.valid" if row.valid else "am.not_valid")),
        doc.Strong(row.shown("regulated_score")),
        row.shown("score"),
        row.shown("error"),
        row.shown("experiment_seconds"),
        row.system,
        row.device,
        str(row.workers),
        proof(row),
        doc.Fold(label("board.command"), [("", reproduce(row))]),
    ]


def reproduce(row: Scored) -> str:
    return shlex.join(["trainmark", "automl", "run", f"{FOLDER}/{row.run}/experiment.yaml"])


def files(manifest: Manifest) -> dict[str, str]:
    """The experiment as a file that `trainmark automl run` takes, and the networks that it began with; nothing where
    the bundle does not tell them in order."""
    params = manifest.plan.cases[0].params
    try:
        told = msgspec.json.decode(str(params["experiment"]), type=dict[str, Any])
        graphs = msgspec.json.decode(str(params["start"]), type=list[str])
        data = str(told["data"])
    except (msgspec.DecodeError, LookupError):
        return {}
    kept = {name: value for name, value in told.items() if name not in _NOT_TOLD}
    # The name of a data set stays; a folder is looked for beside the file.
    kept["data"] = f"./{Path(data).name}" if "/" in data else data
    # A network that is made by its name is named; others came from files, and are files again.
    made: dict[str, str] = {}
    if told.get("init_models") or str(told.get("start")).endswith(".json"):
        made = {f"start-{number}.json": graph + "\n" for number, graph in enumerate(graphs)}
        kept["init_models"] = list(made)
        kept.pop("start", None)
    return {**made, "experiment.yaml": yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)}


def write(manifest: Manifest, site: Path) -> None:
    folder = site / FOLDER / manifest.run
    folder.mkdir(parents=True)
    for name, text in files(manifest).items():
        (folder / name).write_text(text, "utf-8")
