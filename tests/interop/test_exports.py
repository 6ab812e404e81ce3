"""Formats that write: what they write can be read by those it is for."""

from __future__ import annotations

import csv
import os
import re
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.interop import dlperf_logs as logs
from tests.interop.dlperf_logs import Run, put
from trainmark.interop.protocol import REGISTRY, defaults
from trainmark.interop.reading.importing import import_results
from trainmark.store.rundir import RunDir
from trainmark.testing.formats import ExportContract


def imported(tmp_path: Path) -> RunDir:
    """A run with a good case of two rounds and a case that was cut off."""
    for repeat in (1, 2):
        put(tmp_path / "logs", logs.ngc_pytorch_resnet(Run(150, 128, lambda step: 0.4)), repeat=repeat)
    cut = logs.ngc_pytorch_resnet(Run(50, 1024)) + 'Traceback <&"\x00=1+1\n'
    folder = put(tmp_path / "logs", cut, "1n8g")
    options = {**defaults(REGISTRY.get("dlperf").import_options), "device": "V100"}
    return RunDir(Path(import_results("dlperf", folder, tmp_path / "runs", options).dir))


@pytest.mark.parametrize("name", ["csv", "dlperf", "junit", "prometheus"])
class TestExports(ExportContract):
    @pytest.fixture
    def runs(self, tmp_path: Path) -> list[RunDir]:
        return [imported(tmp_path)]


def write(name: str, tmp_path: Path) -> str:
    (file,) = REGISTRY.get(name).write([imported(tmp_path)], tmp_path / "output", {})
    return str(file.read_text())


def test_csv(tmp_path: Path) -> None:
    rows = list(csv.DictReader(write("csv", tmp_path).splitlines()))
    speeds = [row for row in rows if row["measurement"] == "throughput"]
    assert [(row["nproc"], round(float(row["value"]), 6), row["n"], row["unit"]) for row in speeds] == [
        ("1", 320.0, "2", "samples/s")
    ]
    (failed,) = [row for row in rows if row["nproc"] == "8"]
    assert failed["state"] == "FAILED" and "truncated log" in failed["reason"]


def test_junit(tmp_path: Path) -> None:
    (suite,) = ElementTree.fromstring(write("junit", tmp_path))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    good, bad = suite
    assert good.find("failure") is None
    assert {p.get("name"): p.get("value") for p in good.iter("property")}["throughput"] == "320 samples/s"
    failure = bad.find("failure")
    assert failure is not None and 'Traceback <&"\\x00=1+1' in (failure.text or "")


def test_prometheus(tmp_path: Path) -> None:
    text = write("prometheus", tmp_path)
    line = re.compile(r'^[a-z_]+\{([a-z]+="([^"\\\n]|\\.)*",?)+\} -?[\d.e+-]+$')
    samples = [row for row in text.splitlines() if not row.startswith("#")]
    assert samples and all(line.match(row) for row in samples)
    (speed,) = [
        row for row in samples if row.startswith("trainmark_measurement{") and 'measurement="throughput"' in row
    ]
    assert float(speed.rpartition(" ")[2]) == pytest.approx(320.0)
    assert any(
        "trainmark_case_succeeded{" in row and 'state="FAILED"' in row and row.endswith(" 0.0") for row in samples
    )


@pytest.mark.parametrize("name", ["csv", "junit", "prometheus"])
def test_a_pipe_is_written_to_and_never_replaced(tmp_path: Path, name: str) -> None:
    run, pipe, got = imported(tmp_path), tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    assert REGISTRY.get(name).write([run], pipe, {}) == [pipe]
    assert pipe.is_fifo(), "as a device would be"
    reader.join(30)
    assert got and got[0]
    assert not list(tmp_path.glob(".*.part"))
