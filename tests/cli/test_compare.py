"""`trainmark compare` on runs whose speeds are known."""

from __future__ import annotations

import msgspec
import pytest

from tests.conftest import Cli
from tests.runs import finished_run, speed_events
from trainmark.i18n.speaker import say
from trainmark.spec.states import JobState

ONE, TWO = "one:none:cpu:1:1:5", "two:none:cpu:1:1:5"
SPEEDS = [50.0, 50.4, 49.6, 50.2, 49.8]


def scaled(factor: float) -> list[float]:
    return [factor * speed for speed in SPEEDS]


def test_words_figures_and_the_exit_code(cli: Cli) -> None:
    finished_run(cli.runs, "20260101-a", {ONE: SPEEDS, TWO: SPEEDS})
    finished_run(cli.runs, "20260102-b", {ONE: scaled(0.9), TWO: SPEEDS[::-1]})
    done = cli("compare", "20260101-a", "last", code=4)
    assert "slower by 10 %" in done.stdout and "equivalent" in done.stdout and "lost more than 5 %" in done.stdout
    found = cli.json("compare", "20260101-a", "20260102-b", "--threshold", "12%")
    first, second = found["cases"]
    assert first["verdict"]["ratio"] == pytest.approx(0.9, rel=1e-6) and first["verdict"]["word"] == "slower"
    assert (first["a"], first["b"]) == pytest.approx((49.999, 45.0), rel=1e-4) and first["unit"] == "things/s"
    assert second["verdict"]["word"] == "equivalent"
    assert found["overall"]["verdict"]["ratio"] == pytest.approx(0.9**0.5, rel=1e-6)
    assert found["overall"]["word"] == "slower" and found["overall"]["missing"] == []
    assert cli.json("compare", "last", "20260101-a")["cases"][0]["verdict"]["word"] == "faster"
    between = cli("compare", "20260101-a", "--threshold", "12%", "20260102-b")
    assert "slower by 10 %" in between.stdout, "names may stand on both sides of an option"


def test_cases_are_matched_whatever_their_repeats(cli: Cli) -> None:
    finished_run(cli.runs, "a", {ONE: SPEEDS})
    finished_run(cli.runs, "b", {ONE.replace(":5", ":3"): SPEEDS[:3]})
    (case,) = cli.json("compare", "a", "b")["cases"]
    assert (case["verdict"]["n_a"], case["verdict"]["n_b"]) == (5, 3)


def test_what_differs_is_said(cli: Cli) -> None:
    before = {"params": {"batch": 16, "lr": 0.1}, "fingerprint": "1" * 16}
    after = {"params": {"batch": 64, "lr": 0.1}, "fingerprint": "2" * 16, "preset": "full"}
    finished_run(cli.runs, "a", {ONE: SPEEDS}, before, host="n1")
    finished_run(cli.runs, "b", {ONE: [50.0, JobState.FAILED, 50.1, 49.9, 50.0]}, after, host="n2")
    refused = cli("compare", "a", "b", code=2)
    assert "the presets differ (quick → full)" in refused.stderr and "--force" in refused.stderr
    text = " ".join(cli("compare", "a", "b", "--force").stdout.split())
    assert "fingerprints differ" in text and "batch: 16 → 64" in text and "preset: quick → full" in text
    assert "lr" not in text and "hosts: n1 → n2" in text
    assert "B: FAILED, 4 of 5 rounds count: made so by a test" in text


def test_what_has_no_result_is_named_and_makes_the_whole_incomplete(cli: Cli) -> None:
    three, four = "three:none:cpu:1:1:1", "four:none:cpu:1:1:1"
    finished_run(cli.runs, "a", {ONE: SPEEDS, TWO: SPEEDS, three: [50.0], four: [5000.0]})
    finished_run(cli.runs, "b", {ONE: SPEEDS, TWO: [*SPEEDS[:4], JobState.INVALID], four: [5000.0]})
    found = cli.json("compare", "a", "b")
    assert [case["case_a"] for case in found["cases"]] == [ONE, four], "a short window is flagged, and compared"
    reasons = {left["case"]: say(left["reason"]) for left in found["left"]}
    assert reasons["three:none:cpu:1:1:*"] == "only in A"
    assert reasons["two:none:cpu:1:1:*"] == "B is INVALID: made so by a test"
    assert found["overall"]["word"] == "incomplete"
    assert sorted(found["overall"]["missing"]) == ["three:none:cpu:1:1:*", "two:none:cpu:1:1:*"]


def test_cases_of_one_run_are_paired_by_block(cli: Cli) -> None:
    weather = [1.0, 1.3, 0.8, 1.1, 0.7]
    slow = [48.0 * factor * (1 + 0.001 * (index % 2)) for index, factor in enumerate(weather)]
    cases = {ONE: [50.0 * factor for factor in weather], TWO: slow}
    finished_run(cli.runs, "a", cases)
    (case,) = cli.json("compare", "a:one", f"a:{TWO}")["cases"]
    assert case["verdict"]["word"] == "slower" and "paired" in say(case["verdict"]["method"])
    finished_run(cli.runs, "b", cases)
    (case,) = cli.json("compare", "a:one", "b:two")["cases"]
    assert case["verdict"]["word"] == "inconclusive" and case["verdict"]["needed"] > 5, "other runs share no blocks"


def test_one_run_each_is_no_verdict(cli: Cli) -> None:
    for name, speed in (("a", 50.0), ("b", 5.0)):
        finished_run(cli.runs, name, {"one:none:cpu:1:1:1": [speed]})
    text = cli("compare", "a", "b", code=5).stdout
    assert "inconclusive" in text and "at least 2 of each" in text and "nothing could be compared" in text


def test_a_slowdown_is_found_though_one_round_was_unsteady(cli: Cli) -> None:
    finished_run(cli.runs, "a", {ONE: SPEEDS})
    folder = finished_run(cli.runs, "b", {ONE: scaled(0.5)})
    (events,) = folder.glob("*/round3/*/*/events.jsonl")
    even = speed_events(25.0)
    middle = even[-1].t // 2
    # Its second half took half as long again.
    slow = [msgspec.structs.replace(one, t=one.t + max(0, one.t - middle) // 2) for one in even]
    lines = [msgspec.json.encode(one) for one in slow]
    events.write_bytes(b"\n".join(lines) + b"\n")
    (case,) = cli.json("compare", "a", "b", code=4)["cases"]
    assert case["verdict"]["word"] == "slower" and case["verdict"]["past_threshold"]
    flag = next(flag for flag in case["flags_b"] if flag["reason"]["code"] == "two-level-slower")
    assert (flag["severity"], flag["rounds"], flag["of"]) == ("severe", 1, 5)


def test_other_runs_tell_how_much_occasions_differ(cli: Cli) -> None:
    """Days differ by 4 %, rounds by 0.5 %: two runs that differ by 5 % are no news."""
    days = [1.0, 1.05, 1.02, 0.97, 1.04, 0.96, 1.01]
    for number, day in enumerate(days[:2]):
        finished_run(cli.runs, f"2026010{number}-a", {ONE: scaled(day)})
    (case,) = cli.json("compare", "20260100-a", "20260101-a")["cases"]
    assert case["verdict"]["word"] == "faster" and "occasions-unknown" in {note["code"] for note in case["notes"]}
    for number, day in enumerate(days[2:]):
        finished_run(cli.runs, f"2026020{number}-a", {ONE: scaled(day)})
    (case,) = cli.json("compare", "20260100-a", "20260101-a")["cases"]
    assert case["verdict"]["word"] == "inconclusive" and "occasions-known" in {note["code"] for note in case["notes"]}
    assert case["variation"]["occasions"] == 7 and case["variation"]["occasion"] == pytest.approx(0.034, abs=0.006)
    assert case["variation"]["round"] == pytest.approx(0.0063, abs=0.001)


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["a", "nosuch"], "no run `nosuch`"),
        (["a", "a"], "are the same"),
        (["a", "b:one"], "either both name a case"),
        (["a:oen", "b:one"], "no case begins with `oen`"),
        (["a:one", "b:one", "--margin", "3"], "--margin: found `3`"),
        (["a", "b", "--threshold", "x"], "--fail-over"),
        (["a", "b", "--metric", "througput"], "did you mean `throughput`"),
        (["a", "c"], "no case in common"),
    ],
)
def test_bad_words(cli: Cli, argv: list[str], complaint: str) -> None:
    for name in ("a", "b"):
        finished_run(cli.runs, name, {ONE: SPEEDS[:1]})
    finished_run(cli.runs, "c", {TWO: SPEEDS[:1]})
    found = cli("compare", *argv, code=2)
    assert complaint in found.stderr and found.stderr.count("\n") == 1, found.stderr


def test_a_run_that_is_not_finished_is_compared_by_force_only_and_marked(cli: Cli) -> None:
    finished_run(cli.runs, "a", {ONE: SPEEDS})
    journal = finished_run(cli.runs, "b", {ONE: SPEEDS}) / "journal.jsonl"
    journal.write_bytes(b"\n".join(journal.read_bytes().splitlines()[:-1]) + b"\n")
    assert "b is not finished (LOST): no verdict" in cli("compare", "a", "b", code=2).stderr
    assert "B is not finished (LOST): compared by force" in cli("compare", "a", "b", "--force").stdout


def test_a_baseline_is_set_where_runs_lie_below_the_present_folder(cli: Cli) -> None:
    finished_run(cli.runs, "a", {ONE: SPEEDS})
    finished_run(cli.runs, "b", {ONE: [0.8 * speed for speed in SPEEDS]})
    cli("baseline", "set", "a", "--runs", "runs")
    assert "lost more than 5 %" in cli("compare", "baseline", "b", "--runs", "runs", code=4).stdout
    assert "--fail-over: found `x`" in cli("compare", "a", "b", "--fail-over", "x", code=2).stderr


def test_runs_of_different_presets_are_different_cases(cli: Cli) -> None:
    """Ids of older runs do not say their preset; their manifests do."""
    small, large = {"layers": 3, "width": 384}, {"layers": 12, "width": 768}
    finished_run(cli.runs, "a", {ONE: SPEEDS}, {"params": small})
    finished_run(cli.runs, "b", {ONE: SPEEDS}, {"params": large, "preset": "full"})
    finished_run(cli.runs, "c", {f"{ONE}@preset=full": SPEEDS}, {"params": large, "preset": "full"})
    assert "layers 3, width 384 → layers 12, width 768" in cli("compare", "a", "b", code=2).stderr
    said = cli("compare", "a", "c", code=2).stderr
    assert "no case in common" in said and "was trained with preset quick in A and full in B" in said
    histories = cli.json("history", ONE)
    assert [(len(one["entries"]), "preset=full" in one["case"]) for one in histories] == [(1, False), (2, True)]
