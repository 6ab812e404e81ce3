"""`export parquet`: a folder with two tables, `measurements.parquet` and `steps.parquet`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.extras import load
from trainmark.interop.protocol import WriteOnly
from trainmark.interop.writing.csv_table import HEAD, rows
from trainmark.interop.writing.runs import Heard, real, rounds
from trainmark.store.rundir import RunDir

_NUMBERS = {"nnodes": int, "nproc": int, "rounds": int, "counted": int, "n": int}
_NUMBERS |= dict.fromkeys(("parameters", "batch_per_rank", "global_batch", "sequence_length", "image_size"), int)
_REALS = ("value", "ci_low", "ci_high")
_STEP = ("run", "case", "round", "rank", "step", "t_ns", "samples", "loss")
_ROWS = 1 << 16


class Parquet(WriteOnly):
    summary = "two Parquet tables: every figure, and every step of every rank"

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG002
        arrow, parquet = load("pyarrow", "export parquet"), load("pyarrow.parquet", "export parquet")
        types = {name: arrow.int64() for name in _NUMBERS} | dict.fromkeys(_REALS, arrow.float64())
        figures = arrow.schema([(name, types.get(name, arrow.string())) for name in HEAD])
        whole = dict.fromkeys(("round", "rank", "step", "t_ns", "samples"), arrow.int64())
        steps = arrow.schema([(name, {**whole, "loss": arrow.float64()}.get(name, arrow.string())) for name in _STEP])
        files = [path / "measurements.parquet", path / "steps.parquet"]
        try:
            path.mkdir(parents=True, exist_ok=True)
            for file, schema, found in zip(files, (figures, steps), (_figures(runs), _steps(runs)), strict=True):
                with _whole(file) as part, parquet.ParquetWriter(str(part), schema) as writer:
                    for batch in _batches(found):
                        columns = dict(zip(schema.names, zip(*batch, strict=True), strict=False))
                        writer.write_table(
                            arrow.table({name: list(columns.get(name, ())) for name in schema.names}, schema)
                        )
        except OSError as error:
            raise UserError(f"--output {path}: cannot be written: {error.strerror or error}") from None
        return files


@contextlib.contextmanager
def _whole(file: Path) -> Iterator[Path]:
    """A path to write to that becomes `file` at the end, or goes when there is none."""
    part = file.with_name(f".{file.name}.part")
    try:
        yield part
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def _figures(runs: Sequence[RunDir]) -> Iterator[Sequence[object]]:
    from trainmark.report.build import build

    for run in runs:
        report = build(run)
        for case in report.cases:
            yield from rows(report, case)


def _steps(runs: Sequence[RunDir]) -> Iterator[Sequence[object]]:
    for run in runs:
        for done in rounds(run):
            for _, _, folder in done.nodes():
                late = {
                    (event.rank, step): loss
                    for event in done.heard(folder)
                    if event.k == "LOSS" and isinstance(event.values, list)
                    for step, loss in zip(event.steps, event.values, strict=False)
                }
                for event in done.heard(folder):
                    if event.k == "STEP_END":
                        loss = _loss(event, late)
                        yield run.id, done.case.case, done.round, event.rank, event.step, event.t, event.n, loss


def _loss(event: Heard, late: Mapping[tuple[int, int], Any]) -> float | None:
    return real(event.loss if event.loss is not None else late.get((event.rank, event.step or 0)))


def _batches(found: Iterator[Sequence[object]]) -> Iterator[list[Sequence[object]]]:
    """So many rows at a time: a long run never lies in memory as a whole. At least one, so that the file is there."""
    batch: list[Sequence[object]] = []
    for row in found:
        batch.append(row)
        if len(batch) == _ROWS:
            yield batch
            batch = []
    if batch:
        yield batch
