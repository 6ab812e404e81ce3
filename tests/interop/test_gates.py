"""One gate for all exports: what a report withholds is in none of them, and what it marks is marked in each."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.runs import finished_run
from trainmark.interop.protocol import REGISTRY
from trainmark.report import build
from trainmark.report.figures import flag_codes
from trainmark.spec.states import JobState
from trainmark.store.rundir import RunDir

# One of its rounds computed wrongly: its speed, in the other rounds, is that of a wrong computation.
WRONG, MARKED = "wrong:none:cpu:1:1:3", "short:none:cpu:1:1:3"
SECRET = 789.9


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    speeds = {WRONG: [SECRET, SECRET, JobState.INVALID], MARKED: [500.0, 504.0, 496.0]}
    return RunDir(finished_run(tmp_path / "runs", "20260101-a", speeds, {"params": {"batch": 10}}))


def written(name: str, run: RunDir, tmp_path: Path) -> dict[str, str]:
    files = REGISTRY.get(name).write([run], tmp_path / "out", {})
    return {str(file.relative_to(tmp_path)): file.read_bytes().decode("utf-8", "replace") for file in files}


def test_the_report_itself(run: RunDir) -> None:
    wrong, marked = build.build(run).cases
    assert wrong.measurements == {} and {one.throughput for one in wrong.runs} == {None}
    assert "short" in flag_codes(marked.flags)


def test_csv(run: RunDir, tmp_path: Path) -> None:
    (text,) = written("csv", run, tmp_path).values()
    rows = list(csv.DictReader(text.splitlines()))
    assert not [row for row in rows if row["workload"] == "wrong" and row["value"]]
    (speed,) = [row for row in rows if row["workload"] == "short" and row["measurement"] == "throughput"]
    assert "short" in speed["flags"]


def test_prometheus(run: RunDir, tmp_path: Path) -> None:
    (text,) = written("prometheus", run, tmp_path).values()
    assert not [row for row in text.splitlines() if "trainmark_measurement{" in row and 'case="wrong' in row]
    assert [row for row in text.splitlines() if "flag" in row.partition("{")[0] and 'case="short' in row]


def test_flagperf(run: RunDir, tmp_path: Path) -> None:
    logs = {name: text for name, text in written("flagperf", run, tmp_path).items() if name.endswith("rank0.out.log")}
    ends = {name: line for name, text in logs.items() for line in text.splitlines() if "FINISHED" in line}
    assert len(ends) >= 5
    for name, line in ends.items():
        found = json.loads(line[line.index("{") :])
        speeds = (
            [value for key, value in found["value"].items() if key.startswith("throughput")] if "value" in found else []
        )
        if "wrong" in name:
            assert set(speeds) <= {None} and "789.9" not in line, line
        else:
            assert "short" in line, "the flags are in it"


def test_dlperf(run: RunDir, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = written("dlperf", run, tmp_path)
    assert not [name for name in files if "wrong" in name] and "789.9" not in "".join(files.values())
    assert "wrong:none:cpu:1:1:3 round 1: it has no speed" in capsys.readouterr().err
    (data,) = [json.loads(text) for name, text in files.items() if name.endswith(".json")]
    assert "short" in data["short"]["1n1g"]["flags"] and data["short"]["1n1g"]["average_speed"] == 500.0
    (page,) = [text for name, text in files.items() if name.endswith(".md")]
    assert "- 1n1g: " in page and "short" in page


def test_tensorboard(run: RunDir, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    from tensorboardX.proto.event_pb2 import Event

    found: dict[str, dict[str, float]] = {}
    texts: dict[str, str] = {}
    for file in REGISTRY.get("tensorboard").write([run], tmp_path / "out", {}):
        values = found.setdefault(str(file), {})
        data = file.read_bytes()
        while data:
            size = int.from_bytes(data[:8], "little")
            event = Event.FromString(data[12 : 12 + size])
            data = data[16 + size :]
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    values[value.tag] = value.simple_value
                else:
                    texts[str(file)] = value.tensor.string_val[0].decode()
    wrong = [values for name, values in found.items() if "wrong" in name]
    assert wrong and not [tag for values in wrong for tag in values if "per_second" in tag or tag.startswith("case/")]
    marked = [values for name, values in found.items() if "short" in name]
    assert all(math.isclose(values["case/throughput"], 500.0, rel_tol=0.01) for values in marked)
    assert [text for name, text in texts.items() if "short" in name and "short" in text]


def test_dlperf_there_and_back(cli: Cli) -> None:
    """Our own rounds become logs that are read back as the same case with the same speed and the same doubts."""
    case = "gpt2:pytorch:cpu:1:2:3@batch=4"
    params = {"params": {"batch": 4, "dtype": "fp32"}, "unit": "tokens", "workload": "gpt2"}
    finished_run(cli.runs, "20260101-a", {case: [500.0, 510.0, 520.0]}, params)
    before = cli.json("report", "20260101-a")["cases"][0]
    cli("export", "dlperf", "20260101-a", "-o", "out")
    (folder,) = (cli.folder / "out" / "logs_fp32" / "pytorch" / "gpt2").iterdir()
    printed = cli("import", "dlperf", str(folder), "--device", "cpu").stdout
    assert "3 round(s) of 1 case(s)" in printed and "flagged: marked" in printed and "short" in printed
    (after,) = cli.json("report")["cases"]
    assert after["case"].startswith("gpt2:pytorch:cpu:1:2:3") and after["state"] == "SUCCEEDED"
    speeds = [one["measurements"]["throughput"] for one in (before, after)]
    assert speeds[1]["inputs"] == pytest.approx(speeds[0]["inputs"], rel=1e-5)
    assert speeds[0]["unit"] == speeds[1]["unit"] == "tokens/s"
