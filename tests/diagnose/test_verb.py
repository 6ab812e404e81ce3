"""`trainmark diagnose` as a user runs it, on a script that knows nothing of trainmark."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.i18n.speaker import say
from trainmark.report.make import why
from trainmark.report.records import Report
from trainmark.report.show import show
from trainmark.score.records import Diagnosis, Value
from trainmark.spec.states import JobState

pytestmark = pytest.mark.slow

SCRIPT = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 4000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64)

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in DataLoader(Slow(), batch_size=10):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def quiet_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_torch")
def test_an_unmodified_script_is_diagnosed_and_its_traces_can_be_opened(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    cli("exec", "--steps", "5", "--", sys.executable, "train.py")
    timed = cli.run_id()
    told = json.loads(cli("diagnose", timed, "--rounds", "3", "--json").stdout)
    (found,) = told["diagnoses"]
    assert found["rounds"] == 3 and [say(one) for one in found["remarks"]] == []
    classes = {name: value["value"] for name, value in found["classes"].items()}
    assert sum(classes.values()) == pytest.approx(found["traced_step"]["value"])
    # 10 samples of 2 ms each.
    assert found["causes"][0]["kind"] == "data" and classes["data"] >= 0.02
    files = sorted(Path(told["traces"]).iterdir())
    assert len(files) == 3
    for file in files:
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        assert all("ph" in event for event in events) and any(event.get("cat") == "cpu_op" for event in events)
    # The timed run is as it was, and what was diagnosed can be shown again.
    assert timed != told["run"] and "waiting for data" in cli("diagnose", told["run"]).stdout
    page = Path(cli("report", told["run"], "--format", "html").stdout.strip()).read_text()
    assert "Why a step takes as long as it does" in page
    why = cli("compare", "--why", told["run"], told["run"]).stdout
    assert "by operator" in why and "aten::addmm" in why


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("noop:none:cpu:1:1:1",), "only PyTorch is traced"),
        (("mnist:pytorch:cpu:1:1:1", "--rounds", "2"), "--rounds: found 2, allowed is 3 and more"),
        (("mnist:pytorch:cpu:1:1:1", "--steps", "5"), "--steps: found 5, allowed is 20 and more"),
        (("nothing-like-it",), "no run"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused_before_anything_starts(
    cli: Cli, words: tuple[str, ...], told: str
) -> None:
    assert told in cli("diagnose", *words, code=2).stderr
    assert not cli.runs.exists()


def test_why_needs_diagnostic_runs(cli: Cli) -> None:
    cli("run", "noop:none:cpu:1:1:1", "--preset", "smoke")
    run = cli.run_id()
    assert "no case begins with `mnist`" in cli("diagnose", f"{run}:mnist", code=2).stderr
    assert "has no diagnostic rounds; `trainmark diagnose" in cli("compare", "--why", run, run, code=2).stderr


def test_what_is_not_known_is_no_difference() -> None:
    """B lost its `copies` with its kernels; what adds most still comes first."""

    def diagnosed(data: float | None, copies: float | None) -> Diagnosis:
        classes = {"data": Value(data, 0.9 * (data or 0), 1.1 * (data or 0)), "copies": Value(copies)}
        step, unknown = Value(0.1 + (data or 0)), Value(None)
        return Diagnosis("x:pytorch:cpu:1:1:1", 3, classes, step, step, *[unknown] * 4, "", [])

    a, b = (
        Report(name, JobState.SUCCEEDED, "s", [], diagnoses=[one])
        for name, one in (("a", diagnosed(0.001, 0.002)), ("b", diagnosed(0.051, None)))
    )
    (found,) = why.why(a, b, None, None)
    assert [(part.name, part.difference) for part in found.classes] == [("data", pytest.approx(0.05)), ("copies", None)]
    assert re.search(r"exposed copies +2 ms +– +unknown", show([found]))
