"""ais-bench: its result folders as runs, our runs as its record, and its configuration as a site and a suite.

Called through the table of formats in `interop.protocol`; `config` by the command line alone, because of its keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.interop.protocol import Option
from trainmark.interop.reading.records import Item, Kept
from trainmark.store.rundir import RunDir


class AisBench:
    """`import aisbench DIR`, `export aisbench RUN`."""

    summary = "ais-bench: throughput and accuracy files of its result folders, and its train_result_info record"
    tools: Mapping[str, str] = {"ais-bench_workload": "2023-06-10"}
    import_options: tuple[Option, ...] | None = (
        Option("workload", "what was trained", default="resnet50"),
        Option("framework", "with what", default="mindspore"),
        Option("device", "on what", default="ascend"),
    )
    export_options: tuple[Option, ...] | None = ()
    # What its own tool would have printed.
    printed = "report.log"

    def wants(self, name: str) -> bool:
        from trainmark.interop.aisbench import reading

        return reading.wants(name)

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        from trainmark.interop.aisbench import reading

        return reading.items(files, options)

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:
        del options
        from trainmark.interop.aisbench import export

        return export.write(runs, path)
