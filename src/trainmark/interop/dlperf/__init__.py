"""DLPerf: its training logs in, its result and table out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.interop.dlperf import names, result
from trainmark.interop.dlperf.reading import LogReader
from trainmark.interop.dlperf.scripts import BY_SCRIPT
from trainmark.interop.protocol import Option
from trainmark.interop.reading.records import UNKNOWN, Item, Kept, Missing, Verbatim
from trainmark.report.make.dlperf import table
from trainmark.store.rundir import RunDir

_NOT_TOLD = (
    "hardware, driver and package versions",
    "device memory, power and utilisation",
    "events of single ranks: one line speaks for all",
)


class DlPerf:
    """Reads what DLPerf's scripts read, `CASE/MODEL_bN_DTYPE_REPEAT.log`, and gives their numbers or better ones."""

    summary = "DLPerf: training logs of every kind it reads in, its result JSON and tables out"
    tools: Mapping[str, str] = {"DLPerf scripts": "c89430b"}
    import_options: tuple[Option, ...] | None = (
        Option("variant", "kind of log, instead of telling it from the content", choices=tuple(BY_SCRIPT)),
        Option("warmup_batches", "steps before the window (default: as the kind's own script)", "int"),
        Option("train_batches", "last step of the window (default: as the kind's own script)", "int"),
        Option(
            "method",
            "`time`: samples ÷ time (harmonic mean where a log holds only rates); `dlperf`: DLPerf's own number",
            default="time",
            choices=("time", "dlperf"),
            identity=False,
        ),
        Option("batch_size_per_device", "where the file's name does not tell it", "int"),
        Option("case", "nodes and devices, as 4n8g, where the folder's name does not tell them"),
        Option("device", "device model, which no log tells", default=UNKNOWN),
    )
    export_options: tuple[Option, ...] | None = ()

    def wants(self, name: str) -> bool:
        return name.endswith(names.ENDINGS)

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        groups: dict[str, list[tuple[str, result.Speed]]] = {}
        told: set[str] = set()
        for file in files:
            reader = LogReader(file, options, told)
            yield from reader.items()
            if reader.speed is not None:
                groups.setdefault(reader.group, []).append((file.name, reader.speed))
            yield from reader.verbatim
        for what in (*(("device",) if options.get("device", UNKNOWN) == UNKNOWN else ()), *_NOT_TOLD):
            yield Missing(what)
        for group, speeds in groups.items():
            only = [one for _, one in speeds]
            yield from result.flags(only, group)
            method = options.get("method") or "time"
            content = result.result(only, method)
            text = f"speeds by method {method}:\n" + result.log_lines(speeds)
            tables = "".join(f"\n{model}\n\n{table(cells)}" for model, cells in content.items())
            # The last part of the folder's name, as DLPerf has it, unless two folders share it.
            short = group.rpartition("/")[2]
            alone = sum(other.rpartition("/")[2] == short for other in groups) == 1
            yield Verbatim(f"{short if alone else group.replace('/', '_')}_result.json", content, text + tables)

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG002
        from trainmark.interop.dlperf.export import export

        return export(runs, path)
