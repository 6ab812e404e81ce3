"""Formats that a library of its own writes: read again by that library."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.interop import flagperf_logs as logs
from trainmark.errors import UserError
from trainmark.interop.protocol import REGISTRY, defaults
from trainmark.interop.reading.importing import import_results
from trainmark.store.rundir import RunDir
from trainmark.testing.formats import ExportContract


def imported(tmp_path: Path) -> RunDir:
    for number in (1, 2):
        logs.put(tmp_path / "logs", "resnet50:pytorch:A100:1:8:2", logs.log(), round=number)
    options = defaults(REGISTRY.get("flagperf").import_options)
    return RunDir(Path(import_results("flagperf", tmp_path / "logs", tmp_path / "runs", options).dir))


@pytest.mark.parametrize("name", ["parquet", "tensorboard"])
class TestExports(ExportContract):
    @pytest.fixture
    def runs(self, tmp_path: Path, name: str) -> list[RunDir]:
        pytest.importorskip({"parquet": "pyarrow", "tensorboard": "tensorboardX"}[name])
        return [imported(tmp_path)]


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    REGISTRY.get("parquet").write([imported(tmp_path)], tmp_path / "out", {})
    figures = parquet.read_table(tmp_path / "out" / "measurements.parquet").to_pylist()
    (speed,) = [row for row in figures if row["measurement"] == "throughput"]
    assert speed["value"] == pytest.approx(16.0) and speed["nproc"] == 8
    steps = parquet.read_table(tmp_path / "out" / "steps.parquet").to_pylist()
    assert len(steps) == 80 and steps[-1]["step"] == 400 and steps[-1]["loss"] == 1 / 400


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    written = REGISTRY.get("tensorboard").write([imported(tmp_path)], tmp_path / "out", {})
    assert len(written) == 2
    data, events = written[0].read_bytes(), []
    while data:
        # A record: length (8), its checksum (4), content, its checksum (4).
        length = int.from_bytes(data[:8], "little")
        events.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    assert events[0].file_version == "brain.Event:2"
    found = {(value.tag, event.step): value.simple_value for event in events for value in event.summary.value}
    assert found["train/loss", 400] == pytest.approx(1 / 400)
    assert found["evaluate/eval_acc1", 400] == pytest.approx(0.7)
    assert found["train/images_per_second", 400] == pytest.approx(16.0)


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    run = imported(tmp_path)
    form = REGISTRY.get("mlflow")
    written = form.write([run], tmp_path / "out", {})
    assert written and all(file.is_file() for file in written)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=(tmp_path / "out").as_uri())
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()])
    assert len(runs) == 2 and {one.info.status for one in runs} == {"FINISHED"}
    assert runs[0].data.metrics["case/throughput"] == pytest.approx(16.0)
    assert runs[0].data.metrics["train/loss"] == pytest.approx(1 / 400)
    assert runs[0].data.tags["trainmark.run"] == run.id
    with pytest.raises(UserError, match="not empty"):
        form.write([run], tmp_path / "out", {})


@pytest.mark.parametrize("name", ["parquet", "tensorboard", "mlflow"])
def test_a_missing_library_is_named(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(module: str, *rest: Any) -> Any:
        if module.partition(".")[0] in ("pyarrow", "tensorboardX", "mlflow"):
            raise ImportError(module)
        return real(module, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(UserError, match=rf"pip install 'trainmark\[{name}\]'"):
        REGISTRY.get(name).write([], tmp_path / "out", {})
