"""What a comparison takes from single rounds."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.runs import finished_run
from trainmark.i18n.speaker import say
from trainmark.reasons import Reason
from trainmark.report.build import build
from trainmark.report.make.compare import Comparison, Side, compare_many
from trainmark.report.records import RunReport
from trainmark.store.rundir import RunDir

ONE, TWO = "one:none:cpu:1:1:4", "two:none:cpu:1:1:4"


def compared(folder: Path, rounds: dict[str, list[int]], disturbed: list[Reason]) -> Comparison:
    """Two cases of one run with a result for the given rounds each; the first round was disturbed."""
    run = RunDir(finished_run(folder, "run", {ONE: [50.0, 50.5, 49.5], TWO: [50.2, 50.4, 49.8]}))
    report = build(run)
    cases = [
        msgspec.structs.replace(
            case,
            rounds=4,
            runs=[
                RunReport(number, 1, ["here"], "steady", 1, 2, 50.0, 50.0, disturbed if number == 1 else [])
                for number in rounds[case.case]
            ],
        )
        for case in report.cases
    ]
    report = msgspec.structs.replace(report, cases=cases)
    one, two = (Side(report, run.manifest(), case.replace(":4", ":*")) for case in (ONE, TWO))
    return compare_many([one, two], "throughput", 0.03, 0.05)[0]


def test_disturbed_rounds_are_named(tmp_path: Path) -> None:
    (case,) = compared(tmp_path, {ONE: [1, 2, 4], TWO: [2, 3, 4]}, [Reason("text", {"text": "steal 9 %"})]).cases
    notes = [say(note) for note in case.notes]
    assert "A: round 1 was disturbed: steal 9 %" in notes and not any(note.startswith("B") for note in notes)


def test_only_the_same_rounds_are_paired(tmp_path: Path) -> None:
    (case,) = compared(tmp_path / "other", {ONE: [1, 2, 4], TWO: [2, 3, 4]}, []).cases
    assert "Welch" in say(case.verdict.method)
    (case,) = compared(tmp_path / "same", {ONE: [1, 2, 4], TWO: [1, 2, 4]}, []).cases
    assert "paired" in say(case.verdict.method)
