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
from trainmark.score.records import Flag
from trainmark.store.rundir import RunDir

ONE, TWO = "one:none:cpu:1:1:4", "two:none:cpu:1:1:4"


def compared(folder: Path, rounds: dict[str, list[int]], flags: list[Flag]) -> Comparison:
    """Two cases of one run with a result for the given rounds each; the first case has flags."""
    run = RunDir(finished_run(folder, "run", {ONE: [50.0, 50.5, 49.5], TWO: [50.2, 50.4, 49.8]}))
    report = build(run)
    cases = [
        msgspec.structs.replace(
            case,
            rounds=4,
            runs=[RunReport(number, 1, ["here"], "steady", 1, 2, 50.0, 50.0) for number in rounds[case.case]],
            flags=flags if case.case.startswith("one") else [],
        )
        for case in report.cases
    ]
    report = msgspec.structs.replace(report, cases=cases)
    one, two = (Side(report, run.manifest(), case.replace(":4", ":*")) for case in (ONE, TWO))
    return compare_many([one, two], "throughput", 0.03, 0.05)[0]


def test_what_is_wrong_with_a_side_is_said_once(tmp_path: Path) -> None:
    why = Reason("text", {"text": "steal 9 %"})
    flags = [Flag("warning", why, 2, 3), Flag("note", Reason("data-synthetic"))]
    (case,) = compared(tmp_path, {ONE: [1, 2, 4], TWO: [2, 3, 4]}, flags).cases
    assert [say(note) for note in case.notes] == ["A, in 2 of 3 rounds: steal 9 %"] and case.flags_a == flags


def test_only_the_same_rounds_are_paired(tmp_path: Path) -> None:
    (case,) = compared(tmp_path / "other", {ONE: [1, 2, 4], TWO: [2, 3, 4]}, []).cases
    assert "Welch" in say(case.verdict.method)
    (case,) = compared(tmp_path / "same", {ONE: [1, 2, 4], TWO: [1, 2, 4]}, []).cases
    assert "paired" in say(case.verdict.method)


def test_blocks_whose_nodes_differ_are_told(tmp_path: Path) -> None:
    """As on a Slurm that gives other nodes to every turn."""
    run = RunDir(finished_run(tmp_path, "run", {ONE: [50.0, 50.5, 49.5], TWO: [50.2, 50.4, 49.8]}))
    report = build(run)
    nodes = {ONE: ["n1", "n2", "n1"], TWO: ["n1", "n1", "n2"]}
    cases = [
        msgspec.structs.replace(
            case,
            runs=[RunReport(number, 1, [host], "steady", 1, 2, 50.0, 50.0) for number, host in enumerate(hosts, 1)],
        )
        for case, hosts in zip(report.cases, nodes.values(), strict=True)
    ]
    report = msgspec.structs.replace(report, cases=cases)
    one, two = (Side(report, run.manifest(), case.replace(":4", ":*")) for case in (ONE, TWO))
    (case,) = compare_many([one, two], "throughput", 0.03, 0.05)[0].cases
    assert "paired" in say(case.verdict.method)
    assert [say(note) for note in case.notes] == [
        "in 2 of 3 blocks A and B ran on different nodes: what these differ by is part of the interval"
    ]
