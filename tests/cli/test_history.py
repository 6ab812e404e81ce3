"""Histories, baselines, and what `compare` says for them."""

from __future__ import annotations

import msgspec
import pytest

from tests.conftest import Cli
from tests.runs import finished_run
from trainmark.spec.states import JobState

CASE = "one:none:cpu:1:1:3"
SPEEDS = [50.0, 50.4, 49.6]


def scaled(factor: float) -> list[float]:
    return [factor * speed for speed in SPEEDS]


def test_a_change_is_found_where_it_happened(cli: Cli) -> None:
    wobble = [1.0, 1.004, 0.997, 1.002, 0.999, 1.001, 0.998, 1.003]
    for number, factor in enumerate(wobble):
        slow = 0.9 if number >= 4 else 1.0
        finished_run(cli.runs, f"2026010{number + 1}-a", {CASE: scaled(factor * slow)})
    finished_run(cli.runs, "20260120-b", {CASE: SPEEDS}, host="elsewhere")
    text = cli("history", "one:none:cpu:1:1").stdout
    assert "changed with 20260105-a: -10.0 %" in text and text.count("◀ changed") == 1
    assert "on elsewhere" in text, "other hosts have a history of their own"
    (here, _) = cli.json("history", CASE)
    assert [one["index"] for one in here["changes"]] == [4] and len(here["entries"]) == 8
    cli("history", "one", "-o", "one.html")
    page = (cli.folder / "one.html").read_text()
    assert "<svg" in page and "changed with 20260105-a" in page
    assert "did you mean" in cli("history", "oen:none:cpu:1:1:3", code=2).stderr


def test_six_runs_are_enough_and_the_last_run_alone_is_told_from_its_noise(cli: Cli) -> None:
    for number, factor in enumerate((1.0, 1.004, 0.997, 0.901, 0.899, 0.9)):
        finished_run(cli.runs, f"2026010{number + 1}-a", {CASE: scaled(factor)})
    (found,) = cli.json("history", CASE)
    assert [one["index"] for one in found["changes"]] == [3] and found["last"] is None
    for number, factor in enumerate((0.902, 0.898, 0.903, 0.75)):
        finished_run(cli.runs, f"2026020{number + 1}-a", {CASE: scaled(factor)})
    (found,) = cli.json("history", CASE)
    assert found["last"]["runs"] == 6 and found["last"]["ratio"] == pytest.approx(0.75 / 0.9, rel=0.01)
    assert "the last run, 20260204-a, lies -16.7 % off the 6 before it" in " ".join(cli("history", CASE).stdout.split())


def test_runs_are_compared_with_the_baseline_of_their_hosts(cli: Cli) -> None:
    finished_run(cli.runs, "a", {CASE: SPEEDS}, host="n1")
    finished_run(cli.runs, "b", {CASE: scaled(0.8)}, host="n1")
    finished_run(cli.runs, "c", {CASE: SPEEDS}, host="n2")
    assert "no baselines" in cli("baseline", "list").stdout
    assert "no baseline for n1" in cli("compare", "baseline", "b", code=2).stderr
    cli("baseline", "set", "a")
    assert cli.json("baseline", "list")[0]["hosts"] == ["n1"] and cli.json("baseline", "show", "b")[0]["run"] == "a"
    assert "slower by 20 %" in cli("compare", "baseline", "b", "--fail-over", "5%", code=4).stdout
    error = cli("compare", "baseline", "c", code=2).stderr
    assert "no baseline for n2" in error and "another site says nothing here: n1 has a" in error
    cli("baseline", "set", "b")
    assert [one["run"] for one in cli.json("baseline", "list")] == ["b"], "one for each host and suite"


def test_only_a_run_that_succeeded_is_a_baseline(cli: Cli) -> None:
    path = finished_run(cli.runs, "a", {CASE: [50.0, JobState.FAILED, 50.0]})
    journal = path / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    assert "only a run that succeeded" in cli("baseline", "set", "a", code=2).stderr


def test_several_runs_against_the_first_are_one_family(cli: Cli) -> None:
    for name, factor in (("a", 1.0), ("b", 0.9), ("c", 1.0)):
        finished_run(cli.runs, name, {CASE: scaled(factor)})
    found = cli.json("compare", "a", "b", "c", code=4)["comparisons"]
    assert [(one["a"], one["b"], one["overall"]["word"]) for one in found] == [
        ("a", "b", "slower"), ("a", "c", "equivalent")
    ]  # fmt: skip
    alone = cli.json("compare", "a", "b", code=4)["cases"][0]["verdict"]["p_difference"]
    assert found[0]["cases"][0]["verdict"]["p_difference"] == pytest.approx(2 * alone)


def test_a_comment_for_a_pull_request_and_a_page(cli: Cli) -> None:
    finished_run(cli.runs, "a", {CASE: SPEEDS, "two:none:cpu:1:1:3": SPEEDS})
    finished_run(cli.runs, "b", {CASE: scaled(0.9), "two:none:cpu:1:1:3": scaled(1.1)})
    cli("compare", "a", "b", "-o", "comment.md", code=4)
    comment = (cli.folder / "comment.md").read_text()
    rows = [line for line in comment.splitlines() if line.startswith("| 🔴") or line.startswith("| 🟢")]
    assert len(rows) == 2 and "`one:none:cpu:1:1:3`" in rows[0] and "0.900" in rows[0], "what got slower comes first"
    assert r"**1 case\(s\) lost more than 5 %**" in comment
    cli("compare", "a", "b", "-o", "page.html", code=4)
    page = (cli.folder / "page.html").read_text()
    assert "<svg" in page and "slower" in page


def test_other_versions_of_a_workload_are_refused_unless_forced(cli: Cli) -> None:
    finished_run(cli.runs, "a", {CASE: SPEEDS}, {"version": "aaa"})
    finished_run(cli.runs, "b", {CASE: scaled(0.9)}, {"version": "bbb"})
    error = cli("compare", "a", "b", code=2).stderr
    assert "the workload itself was changed (version aaa → bbb)" in error and "--force" in error
    done = cli("compare", "a", "b", "--force", code=4)
    assert "compared by force: versions of the workload differ" in done.stdout
    finished_run(cli.runs, "c", {CASE: SPEEDS}, {"fingerprint": "3" * 16})
    finished_run(cli.runs, "d", {CASE: SPEEDS}, {"fingerprint": "4" * 16})
    assert "the workload itself was changed" in cli("compare", "c", "d", code=2).stderr


def test_unfinished_and_lonely_runs_get_no_verdict(cli: Cli) -> None:
    finished_run(cli.runs, "a", {CASE: SPEEDS})
    path = finished_run(cli.runs, "b", {CASE: SPEEDS})
    journal = path / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    assert "b is not finished (LOST): no verdict" in cli("compare", "a", "b", code=2).stderr
    assert "rounds count" in cli("compare", "a", "b", "--force").stdout
    assert "one run only" in cli("compare", "a", code=2).stderr


def test_a_kept_report_is_made_anew_when_its_files_change(cli: Cli) -> None:
    """A large run is reported from the cache; whatever changes in its folder is still seen."""
    cases = {f"w{number}:none:cpu:1:1:2": [50.0, 51.0] for number in range(100)}
    path = finished_run(cli.runs, "a", cases)

    def speed() -> float:
        report = msgspec.json.decode(cli("report", "a", "--format", "json").stdout)
        return float(report["cases"][0]["measurements"]["throughput"]["value"])

    before = speed()
    assert speed() == before
    (file,) = (path / "w0+none+cpu+1+1+2" / "round1").glob("attempt1/*/events.jsonl")
    lines = file.read_text().replace('"n":10', '"n":20')
    file.write_text(lines)
    assert speed() == pytest.approx(before * 2**0.5)
