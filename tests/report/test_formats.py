"""Text, Markdown, CSV and the command that writes them."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from pathlib import Path

import msgspec
import pytest

from tests.conftest import Cli
from tests.report import samples
from trainmark.reasons import reason
from trainmark.report.make import differences
from trainmark.report.make.history import LeftOut
from trainmark.report.render import data
from trainmark.report.show import show
from trainmark.testing import synthetic


def test_text_shows_figures_and_what_went_wrong() -> None:
    said = show(samples.everything())
    assert said.startswith("3 of 6 cases gave a result; 1 not to be relied on, see the flags; the others did\nnot.\n")
    assert re.search(r"cpu:1:1:3\n +24\.58 images/s +23\.42 … 25\.78 +3/3", said)
    assert re.search(r"bert_tiny\S+\n +11\.39 images/s .* 3/3 +drifting 2/3", said), "flagged, and given"
    assert "severe: drifting: steps became about 38.0 % (±2.1) slower" in said and "(in 2 of 3 rounds)" in said
    assert "last lines of rank 2:\n    | epoch 1 step 12" in said
    assert "\x1b" not in show(samples.nasty()), "a log cannot move the reader's cursor"
    chinese = show(samples.everything(), "text", "zh").splitlines()
    assert chinese[0].startswith("6 个用例中 3 个有结果") and "进程 2 的最后输出" in "\n".join(chinese)


def test_no_format_holds_a_control_character() -> None:
    report = samples.report(samples.hostile(), suite="a\x9b31m\x7f\u2066b")
    for kind in ("text", "md", "html", "json", "json-line", "csv"):
        said = show(report, kind)
        assert not [letter for letter in said if letter not in "\n\t\u2060\u00a0" and not letter.isprintable()], kind
    assert json.loads(show(report, "json"))["suite"] == report.suite, "JSON loses nothing"


def test_markdown_is_a_table_that_data_cannot_break() -> None:
    for report in (samples.everything(), samples.nasty()):
        said = show(report, "md")
        rows = [line for line in said.splitlines() if line.startswith("| ")]
        assert len(rows) == 2 + len(report.cases)
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    outside = re.sub(r"(`+).*?\1", "", said, flags=re.S)
    assert "<script" not in outside and "<img" not in outside and "@user" not in outside
    assert "24.58 images/s" in show(samples.everything(), "md")
    assert show(samples.report(), "md").count("|") == 0


def test_csv_has_numbers_as_numbers_and_no_formulas() -> None:
    rows = list(csv.DictReader(io.StringIO(data.to_csv(samples.everything()))))
    assert tuple(rows[0]) == data.HEAD
    speed = next(row for row in rows if row["measurement"] == "throughput")
    assert float(speed["ci_low"]) < float(speed["value"]) < float(speed["ci_high"]) and speed["n"] == "3"
    flagged = next(row for row in rows if row["measurement"] == "throughput" and row["flags"])
    assert flagged["value"] and flagged["flags"].startswith("severe drifting-slower 2/3; warning disturbed 1/3")
    energy = next(row for row in rows if row["measurement"] == "energy")
    assert energy["value"] == "" and energy["reason"] == "no energy counter on this machine"
    failed = next(row for row in rows if row["state"] == "FAILED")
    assert failed["measurement"] == "" and failed["reason"].startswith("probably out of memory")
    invented = samples.case("-2+3:x", [], reason="=HYPERLINK(1)", state=samples.JobState.SKIPPED)
    (row,) = csv.DictReader(io.StringIO(data.to_csv(samples.report(invented))))
    assert (row["case"], row["reason"]) == ("'-2+3:x", "'=HYPERLINK(1)")


@pytest.mark.parametrize("name", [name for name in samples.PAGES if name != "automl"])
def test_json_is_the_record(name: str) -> None:
    decoded = json.loads(show(samples.PAGES[name](), "json"))
    assert json.loads(show(samples.PAGES[name](), "json-line")) == decoded


def test_a_reason_has_its_text_in_json() -> None:
    left = msgspec.structs.replace(samples.history()[0], left=[LeftOut("a", reason("no-speed"))])
    (found,) = json.loads(show([left], "json"))
    assert found["left"][0]["reason"] == {"code": "no-speed", "arguments": {}, "text": "no speed"}


def test_a_history_names_what_changed_with_a_change() -> None:
    found = samples.history()[0]
    upgrades = [reason("changed", what=f"package{number}", before="1", after="2") for number in range(9)]
    driver = reason("changed", what="driver", before="535.1", after="550.2")
    changed = msgspec.structs.replace(found.entries[4], since=[driver, *upgrades])
    entries = [*found.entries[:4], changed, *found.entries[5:]]
    text = " ".join(show([msgspec.structs.replace(found, entries=entries)]).split())  # lines are broken anywhere
    assert "between the two runs: driver: 535.1 → 550.2; package0: 1 → 2" in text and ", and 2 more" in text


def test_surroundings_are_commit_driver_and_packages(tmp_path: Path) -> None:
    run = synthetic.write_run(tmp_path, "noop:none:cpu:1:1:1", [synthetic.Shape(steps=20)])
    said = {"git": {"commit": "a1", "dirty": False}, "packages": {"torch": "2.1"}, "facts": {"kernel": "6.1"}}
    manifest = msgspec.structs.replace(run.manifest(), provenance=said)
    found = differences.surroundings(manifest, {"accelerators": {"driver": "535.1"}})
    assert (found["commit"], found["driver"], found["torch"], found["kernel"]) == ("a1", "535.1", "2.1", "6.1")


@pytest.fixture
def ran(cli: Cli) -> Cli:
    cli("run", "noop:none:cpu:1:1:2", "--preset", "smoke")
    return cli


def test_the_file_name_chooses_the_format(ran: Cli) -> None:
    for name, begins in (
        ("a.html", "<!doctype html>"),
        ("a.md", "## noop"),
        ("a.csv", "case,state,"),
        ("a.txt", "The case gave "),
    ):
        assert ran("report", "-o", name).stdout == ""
        assert (ran.folder / name).read_text().startswith(begins)
    ran("report", "-o", "a.json")
    assert json.loads((ran.folder / "a.json").read_text())["run"] == ran.run_id()
    ran("report", "-o", "b.html", "--format", "csv")
    assert (ran.folder / "b.html").read_text().startswith("case,state,"), "what was asked for is stronger"


def test_html_without_a_file_goes_to_the_run(ran: Cli) -> None:
    (path,) = ran("report", "--format", "html", "--lang", "zh").stdout.split()
    assert Path(path).name == "report.html" and Path(path).parent.name == ran.run_id()
    assert '<html lang="zh"' in (ran.folder / path).read_text()
    assert ran("report").stdout.startswith("The case gave "), "a page among its files does not disturb a run"
    assert "report.html" in ran("report", "--help").stdout


def test_a_file_is_written_whole_or_not_at_all(ran: Cli) -> None:
    kept = ran.folder / "kept.md"
    kept.write_text("old")
    link = ran.folder / "link.md"
    link.symlink_to(kept)
    ran("report", "-o", "link.md")
    assert link.is_symlink() and kept.read_text().startswith("## noop")
    assert "nowhere" in ran("report", "-o", "nowhere/a.md", code=2).stderr
    assert "directory" in ran("report", "-o", ".", code=2).stderr
    pipe = ran.folder / "pipe"
    os.mkfifo(pipe)
    process = ran.start("report", "-o", str(pipe))
    assert pipe.read_text().startswith("The case gave ")
    assert process.wait(30) == 0 and pipe.is_fifo(), "a pipe is written to, never replaced"
    assert not list(ran.folder.glob(".*.part"))
