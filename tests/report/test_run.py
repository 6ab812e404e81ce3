"""The report of a run: its verdict on top, what was trained, what was tried, and nothing said twice."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.plans import plan
from tests.report import samples
from trainmark.i18n.speaker import say
from trainmark.reasons import reason
from trainmark.report import summary
from trainmark.report.make import tries
from trainmark.report.make.whole import whole
from trainmark.report.records import Change, Try
from trainmark.report.show import show
from trainmark.score.records import Flag
from trainmark.spec.states import JobState
from trainmark.store import baselines, journal
from trainmark.store.state import RunState
from trainmark.testing.synthetic import Shape, write_run

TRAINED = "25.6 M parameters (50 layers × 64), batch 16, 64 px, fp32, synthetic data, preset quick"


def flagged(severity: str) -> samples.CaseReport:
    return replace(samples.steady(), flags=[Flag(severity, reason("one-round"))])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cases", "state", "trust", "said"),
    [
        ([], JobState.SUCCEEDED, "none", "This run has no cases."),
        ([samples.steady()], JobState.SUCCEEDED, "good", "The case gave a result, and nothing was seen that speaks"),
        ([samples.steady()] * 2, JobState.SUCCEEDED, "good", "All 2 cases gave a result, and nothing"),
        ([samples.steady(), flagged("warning")], JobState.SUCCEEDED, "fair", "1 to be used with care, see the flags"),
        ([flagged("severe"), flagged("warning")], JobState.SUCCEEDED, "weak", "1 not to be relied on and 1 to be used"),
        ([samples.steady(), samples.failed()], JobState.FAILED, "weak", "1 of 2 cases gave a result"),
        ([samples.invalid()], JobState.FAILED, "none", "The case gave no result."),
        ([samples.steady(), samples.failed()], JobState.RUNNING, "weak", "The run is not finished: 1 of 2"),
    ],
)
def test_the_first_sentence_says_how_far_to_trust(cases: list, state: JobState, trust: str, said: str) -> None:
    report = samples.report(*cases, state=state)
    found = summary.of(report)
    assert found.trust == trust and said in say(found.verdict)
    for kind in ("text", "md", "html"):
        assert said in show(report, kind).replace("\n", " "), kind


@pytest.mark.parametrize(
    ("report", "command"),
    [
        (samples.report(samples.steady()), "trainmark baseline set 20261115-234558-quick-aacd"),
        (samples.report(samples.failed(), state=JobState.FAILED), "trainmark logs 20261115-234558-quick-aacd --case"),
        (samples.report(samples.steady(), state=JobState.CANCELLED), "trainmark resume 20261115-234558-quick-aacd"),
        (samples.report(samples.steady(), state=JobState.RUNNING), "trainmark logs -f 20261115-234558-quick-aacd"),
    ],
)
def test_the_next_command_stands_there_to_be_copied(report: samples.Report, command: str) -> None:
    for kind in ("text", "md", "html"):
        assert command in show(report, kind), kind


def test_what_is_not_to_be_relied_on_is_no_baseline_but_a_reason_to_run_again() -> None:
    found = summary.of(samples.report(flagged("severe")))
    assert found.next == ["trainmark report 20261115-234558-quick-aacd --format html", "trainmark run quick"]


def test_every_format_says_what_was_trained() -> None:
    report = samples.report(samples.steady())
    for kind in ("text", "md", "html"):
        said = " ".join(show(report, kind).split())
        assert TRAINED in said.replace("\\(", "(").replace("\\)", ")"), kind
    assert json.loads(show(report, "json"))["cases"][0]["trained"]["model"] == {"layers": 50, "width": 64}
    row = next(csv.DictReader(io.StringIO(show(report, "csv"))))
    assert (row["preset"], row["parameters"], row["model"]) == ("quick", "25557032", "layers=50 width=64")
    assert (row["batch_per_rank"], row["dtype"], row["data"]) == ("16", "fp32", "synthetic")


def test_a_terminal_of_80_columns_is_enough_and_no_word_is_broken() -> None:
    report = replace(samples.everything(), warnings=["one word after another " * 12])
    for language in ("en", "zh"):
        for line in show(report, "text", language).splitlines():
            # What is to be copied stays whole.
            if not line.lstrip().startswith(("|", "trainmark ", "Next", "下一步")):
                width = len(line) + sum(ord(letter) > 0x2E80 for letter in line)
                assert width <= 80 or " " not in line.strip(), line
    whole_words = set(show(report).split())
    assert {"another", "hypervisor"} & whole_words and not {"anoth", "er"} & whole_words


def test_what_all_cases_have_is_said_once() -> None:
    note = Flag("note", reason("data-synthetic"))
    cases = [replace(samples.steady(f"mnist:pytorch:cpu:1:{number}:3"), flags=[note]) for number in (1, 2, 3)]
    said = show(samples.report(*cases))
    assert said.count("data is synthetic") == 1 and "all cases:" in said


def test_a_retry_does_not_hide_what_happened_before_it() -> None:
    lost, gone = reason("imported-from", format="n3 is silent"), reason("imported-from", format="n3 is unreachable")
    tried = [Try(2, 1, JobState.LOST, lost), Try(3, 1, JobState.LOST, lost), Try(2, 2, JobState.FAILED, gone)]
    report = samples.report(replace(samples.failed(), tries=tried), state=JobState.FAILED)
    for kind in ("text", "md", "html"):
        said = " ".join(show(report, kind).replace("\\", "").split())
        assert "2 attempts of round(s) 2, 3: lost" in said and "n3 is silent" in said, kind
        assert "round 2, attempt 2: failed" in said and "n3 is unreachable" in said, kind
    assert json.loads(show(report, "json"))["cases"][0]["tries"][0]["state"] == "LOST"


def test_attempts_are_read_from_the_journal_without_placeholders() -> None:
    made = plan([1])
    begun = journal.Record(journal.ATTEMPT, 1, 1, 0, 1, 1)
    lost = replace(begun, k=journal.ENDED, state=JobState.LOST, reason="no news from %TRAINMARK_WORK%/runs/x")
    second = replace(begun, attempt=2)
    gone = replace(second, k=journal.ENDED, state=JobState.FAILED, reason="unreachable", failure={"kind": "agent"})
    state = RunState.replay(made, [begun, lost, second, gone])
    found = tries.of_case(state, 0)
    assert [(one.attempt, one.state) for one in found] == [(1, JobState.LOST), (2, JobState.FAILED)]
    assert say(found[0].reason) == "no news from (work folder)/runs/x"
    assert tries.of_case(RunState.replay(made, [begun, lost]), 0) == [], "one attempt is told by the case itself"


def test_the_change_against_the_baseline_stands_on_top(tmp_path: Path) -> None:
    fast = write_run(tmp_path, "mnist:pytorch:cpu:1:1:5", [Shape(noise=0.01)] * 5)
    slow = write_run(tmp_path, "mnist:pytorch:cpu:1:1:5", [Shape(noise=0.01, seconds=0.2)] * 5, seed=9)
    assert whole(slow).summary.change is None  # type: ignore[union-attr]
    baselines.put(tmp_path, fast.manifest())
    change = whole(slow).summary.change  # type: ignore[union-attr]
    assert change is not None and (change.baseline, change.word, change.cases) == (fast.id, "slower", 1)
    assert change.ratio == pytest.approx(0.5, rel=0.02) and len(change.lost) == 1
    assert whole(fast).summary.change is None, "a baseline is not compared with itself"  # type: ignore[union-attr]
    said = " ".join(show(whole(slow)).split())
    assert "Against the baseline slower 0.50" in said and f"trainmark compare {fast.id} {slow.id}" in said


def test_a_change_that_cannot_be_told_says_why() -> None:
    change = Change("earlier", reason=reason("imported-from", format="flagperf"))
    report = summary.with_summary(samples.report(samples.steady()), change)
    assert "not compared with earlier: " in show(report)
