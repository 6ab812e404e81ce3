"""Other tools' logs and results, in and out. Every format is one entry here; docs/interop.md tells how to add one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from trainmark.plugins import Registry, guarded

if TYPE_CHECKING:
    from trainmark.interop.format import Format

REGISTRY = Registry(
    "format",
    {
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
