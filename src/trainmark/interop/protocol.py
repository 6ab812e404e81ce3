"""What every format can do. `testing/formats.py` holds the tests that each must pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from trainmark.interop.reading.records import Item, Kept
from trainmark.plugins import Registry, guarded
from trainmark.report.records import Report
from trainmark.store.files import write_named
from trainmark.store.rundir import RunDir


class Option(msgspec.Struct, frozen=True):
    """One option of a format on the command line: `--name VALUE`, or `--name` alone for a `bool`."""

    name: str
    help: str
    type: Literal["int", "float", "str", "bool"] = "str"
    default: Any = None
    choices: tuple[str, ...] = ()
    # Whether it changes what is imported. One that only changes what is printed does not make another run.
    identity: bool = True


class Format(Protocol):
    """A format reads, writes, or both. What it cannot do has None for its options."""

    summary: str
    # Versions of what it was made after, kept in the manifest of imported runs.
    tools: Mapping[str, str]
    import_options: tuple[Option, ...] | None
    export_options: tuple[Option, ...] | None

    def wants(self, name: str) -> bool:
        """Whether a file of a folder is its own, by its relative name alone. A file given by path is not asked for."""

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:
        """All that the files say, in order. Never fails on what is in them: what cannot be taken is flagged."""

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:
        """Writes the runs as the format has it; gives what was written."""


class WriteOnly:
    """The half of a format that only writes. A subclass gives `render`: the runs' reports as one file's content."""

    tools: Mapping[str, str] = {}
    import_options: tuple[Option, ...] | None = None
    export_options: tuple[Option, ...] | None = ()

    def wants(self, name: str) -> bool:  # noqa: ARG002
        return False

    def read(self, files: Sequence[Kept], options: Mapping[str, Any]) -> Iterator[Item]:  # noqa: ARG002
        return iter(())

    def write(self, runs: Sequence[RunDir], path: Path, options: Mapping[str, Any]) -> list[Path]:  # noqa: ARG002
        from trainmark.report.build import build

        # At once or not at all: whoever collects the file never sees half of it.
        write_named(path, self.render([build(run) for run in runs]))
        return [path]

    def render(self, reports: Sequence[Report]) -> bytes:
        raise NotImplementedError


def defaults(options: tuple[Option, ...] | None) -> dict[str, Any]:
    return {option.name: option.default for option in options or ()}


REGISTRY = Registry(
    "format",
    {
        "aisbench": "trainmark.interop.aisbench:AisBench",
        "csv": "trainmark.interop.writing.csv_table:Csv",
        "dlperf": "trainmark.interop.dlperf:DlPerf",
        "flagperf": "trainmark.interop.flagperf:FlagPerf",
        "flagperf-config": "trainmark.interop.flagperf.config:FlagPerfConfig",
        "junit": "trainmark.interop.writing.junit:JUnit",
        "mlflow": "trainmark.interop.writing.mlflow:MLflow",
        "mlperf": "trainmark.interop.mlperf:MlPerf",
        "parquet": "trainmark.interop.writing.parquet:Parquet",
        "prometheus": "trainmark.interop.writing.prometheus:Prometheus",
        "tensorboard": "trainmark.interop.writing.tensorboard:TensorBoard",
    },
)


def formats() -> Iterator[tuple[str, Format]]:
    """Every format that works, by name."""
    for name in REGISTRY.names():
        made = guarded(partial(REGISTRY.get, name), f"format {name}")
        if made is not None:
            yield name, made
