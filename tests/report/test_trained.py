"""What was trained, as each case's report says it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.runs import finished_run
from trainmark.report.build import build
from trainmark.report.show import show
from trainmark.report.trained import fields
from trainmark.store import rundir

GPT2 = {
    "preset": "quick",
    "data": "synthetic",
    "params": {"layers": 3, "width": 384, "context": 128, "batch": 4, "accumulate": 2, "dtype": "fp32", "lr": 0.1},
}


def test_a_case_says_what_it_trained(tmp_path: Path) -> None:
    path = finished_run(tmp_path, "r", {"gpt2:pytorch:cpu:1:1:1": [100.0]}, GPT2)
    (events,) = path.glob(f"*/*/*/*/{rundir.EVENTS}")
    head, _, rest = events.read_text().partition("\n")
    note = msgspec.json.encode({"k": "NOTE", "rank": 0, "seq": 1, "t": 0, "name": "parameters", "value": 5_390_592})
    events.write_text(f"{head}\n{note.decode()}\n{rest}")
    trained = build(rundir.RunDir(path)).cases[0].trained
    assert trained is not None
    assert (trained.parameters, trained.preset, trained.dtype, trained.sequence_length) == (
        5390592,
        "quick",
        "fp32",
        128,
    )
    assert (trained.batch_per_rank, trained.global_batch, trained.ranks) == (8, 8, 1)
    assert trained.model == {"layers": 3, "width": 384} and trained.image_size is None
    assert trained.data == "synthetic" and trained.synthetic


def test_what_is_not_known_is_none(tmp_path: Path) -> None:
    odd = {"params": {"batch": "many", "context": 1.5}, "data": "/srv/data/own.txt"}
    path = finished_run(tmp_path, "r", {"gpt2:pytorch:cpu:1:1:1": [100.0]}, odd)
    trained = build(rundir.RunDir(path)).cases[0].trained
    assert trained is not None
    known = (trained.parameters, trained.global_batch, trained.sequence_length, trained.dtype)
    assert known == (None, None, None, None)
    assert (trained.data, trained.synthetic) == ("own.txt", False)


def test_a_command_of_the_users_own_is_told_by_its_words_and_what_hooks_saw(tmp_path: Path) -> None:
    """It has no preset: that word would only mislead."""
    path = finished_run(tmp_path, "r", {"train:exec:cpu:1:1:1": [100.0]}, {"open": True, "preset": "full"})
    (events,) = path.glob(f"*/*/*/*/{rundir.EVENTS}")
    head, _, rest = events.read_text().partition("\n")
    counted = {"each": [["SGD", 68_362, 40], ["Adam", 10, 40]], "optimizers": 2}
    note = msgspec.json.encode({"k": "NOTE", "rank": 0, "seq": 1, "t": 0, "name": "counted", "value": counted})
    events.write_text(f"{head}\n{note.decode()}\n{rest}")
    report = build(rundir.RunDir(path))
    trained = report.cases[0].trained
    assert trained is not None and (trained.command, trained.updated, trained.ranks) == ("true", 68_372, 1)
    assert trained.batch_per_rank is not None
    for kind in ("text", "md", "html"):
        shown = show(report, kind, "en")
        assert "68.4 k parameters updated by each rank" in shown and "preset full" not in shown, kind
    columns = fields(report.cases[0])
    assert (columns["preset"], columns["command"], columns["updated_parameters"]) == (None, "true", 68_372)


def test_a_run_of_an_older_version_has_it_too() -> None:
    frozen = Path(__file__).parents[1] / "store" / "frozen" / "schema1"
    trained = build(rundir.RunDir(frozen)).cases[0].trained
    assert trained is not None and (trained.preset, trained.global_batch) == ("smoke", 8)
