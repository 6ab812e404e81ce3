"""MLPerf Training: `:::MLLOG` logs in and out. Nothing here makes an MLPerf result: that needs MLCommons' review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.interop.protocol import Option
from trainmark.interop.reading.records import Item, Kept
from trainmark.store.rundir import RunDir


class MlPerf:
    """Reads `result_*.txt` (each is a round) and system descriptions; writes the folders of a submission."""

    summary = "MLPerf Training: :::MLLOG logs and system descriptions, in and out"
    import_options: tuple[Option, ...] | None = (
        Option("case", "benchmark:framework:hardware:nnodes:nproc:1, where no system description tells it"),
    )
    export_options: tuple[Option, ...] | None = (
        Option("org", "submission_org", default="unknown"),
        Option("system", "submission_platform (default: the device and size of the case)"),
    )
    tools: Mapping[str, str] = {}

    def wants(self, name: str) -> bool:
        last = name.rpartition("/")[2]
        stem = last.removesuffix(".gz").removesuffix(".zst")
        result = stem.startswith("result_") and stem.endswith((".txt", ".log", ".out"))
        return result or stem.endswith((".mllog", ".mllog.txt", ".out")) or "/systems/" in f"/{name}"

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        from trainmark.interop.mlperf.reading import read

        return read(files, options)

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:
        from trainmark.interop.mlperf.export import export

        return export(runs, path, options)
