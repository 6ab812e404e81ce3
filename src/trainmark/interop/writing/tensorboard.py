"""`export tensorboard`: curves of every round as TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.extras import load
from trainmark.interop.protocol import WriteOnly
from trainmark.interop.writing.curves import points
from trainmark.interop.writing.runs import Done, rounds
from trainmark.report.figures import flag_codes
from trainmark.report.records import CaseReport
from trainmark.store.rundir import RunDir

# TensorBoard takes any file with this in its name; one of our own does not change from export to export.
_FILE = "events.out.tfevents.{second:010d}.trainmark"


class TensorBoard(WriteOnly):
    summary = "TensorBoard: losses, evaluations, speed and figures of every round"

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG002
        from trainmark.report.build import build

        proto = load("tensorboardX.proto.event_pb2", "export tensorboard")
        summaries = load("tensorboardX.summary", "export tensorboard")
        records = load("tensorboardX.record_writer", "export tensorboard")
        written = []
        for run in runs:
            figures = {case.case: case for case in build(run).cases}
            for done in rounds(run):
                folder = path / run.id / done.case.id.dir_name() / f"round{done.round}"
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    written.append(_write(folder, done, figures[done.case.case], proto, summaries, records))
                except OSError as error:
                    raise UserError(f"--output {folder}: cannot be written: {error.strerror}") from None
        return written


def _write(folder: Path, done: Done, case: CaseReport, proto: Any, summaries: Any, records: Any) -> Path:
    found = list(points(done))
    first, last = (found[0].t_ms, found[-1].t_ms) if found else (0, 0)
    file = folder / _FILE.format(second=max(0, first) // 1000)
    file.unlink(missing_ok=True)
    writer = records.RecordWriter(str(file))
    try:
        header = proto.Event(wall_time=first / 1000, file_version="brain.Event:2")
        writer.write(header.SerializeToString())
        for point in found:
            summary = summaries.scalar(point.name, point.value)
            writer.write(proto.Event(wall_time=point.t_ms / 1000, step=point.step, summary=summary).SerializeToString())
        for name, figure in case.measurements.items():
            if figure.value is not None:
                summary = summaries.scalar(f"case/{name}", figure.value)
                writer.write(proto.Event(wall_time=last / 1000, step=0, summary=summary).SerializeToString())
        if case.flags:
            summary = summaries.text("case/flags", flag_codes(case.flags))
            writer.write(proto.Event(wall_time=last / 1000, step=0, summary=summary).SerializeToString())
    finally:
        writer.close()
    return file
