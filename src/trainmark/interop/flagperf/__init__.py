"""FlagPerf: its run directories in and out, and its configuration in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.errors import UserError
from trainmark.interop.flagperf import paths
from trainmark.interop.protocol import Option
from trainmark.interop.reading.records import Item, Kept, Missing
from trainmark.store.rundir import RunDir

_NOT_TOLD = ("hardware, driver and package versions", "configuration of the training program")


class FlagPerf:
    """Reads `result/run…` folders: PerfLog, the text logs of LLM cases, monitors."""

    summary = "FlagPerf: run directories with PerfLog and monitor logs, in and out"
    import_options: tuple[Option, ...] | None = (
        Option("case", "model:framework:hardware:nnodes:nproc:repeat, where the path does not tell it"),
        Option("device", "device model, instead of the path's"),
        Option("batch", "samples of a step of all devices, where the log does not tell them", "int"),
    )
    export_options: tuple[Option, ...] | None = ()
    tools: Mapping[str, str] = {}

    def wants(self, name: str) -> bool:
        return paths.wanted(name)

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        from trainmark.interop.flagperf.reading import RoundReader

        batch = options.get("batch")
        if batch is not None and batch < 1:
            raise UserError(f"--batch {batch}: allowed is a whole number from 1")
        for one in paths.rounds(files, options):
            yield from RoundReader(one, options).items()
        for what in _NOT_TOLD:
            yield Missing(what)

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG002
        from trainmark.interop.flagperf.export import export

        return export(runs, path)
