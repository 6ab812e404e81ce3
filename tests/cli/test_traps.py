"""Small things that people ran into: each is said plainly, or simply works."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TRAINMARK, Cli
from trainmark.report.make import compare
from trainmark.report.render import pdf
from trainmark.store import rundir


def test_a_workload_is_no_suite_but_has_cases(cli: Cli) -> None:
    said = cli("run", "resnet50", code=2).stderr
    assert "`resnet50` is a workload" in said and "`resnet50:pytorch:cpu:1:1:3`" in said and not cli.runs.exists()


def test_the_name_of_a_suite_is_its_newest_run(cli: Cli) -> None:
    for _ in range(2):
        cli("run", "noop")
    newest = max(cli.runs.glob("*/manifest.json"), key=lambda file: file.stat().st_mtime_ns).parent
    assert json.loads(cli("report", "noop", "--json").stdout)["run"] == newest.name
    assert cli("report", newest.name, "--json").stdout == cli("report", "noop", "--format", "json").stdout


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser here")
def test_a_report_is_printed_by_a_browser(cli: Cli) -> None:
    cli("run", "noop")
    cli("report", "-o", "report.pdf")
    assert (cli.folder / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_no_pdf_without_a_browser(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("run", "noop")
    monkeypatch.setattr(pdf, "_BROWSERS", ())
    said = cli("report", "-o", "report.pdf", code=2).stderr
    assert "needs a browser" in said and not (cli.folder / "report.pdf").exists()
    assert "only" in cli("history", "noop", "-o", "x.pdf", code=2).stderr


def test_a_full_disk_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rundir, "find", full)
    assert f"{cli.runs}: No space left" in cli("report", code=3).stderr


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("automl", "run", "--help")])
def test_help_that_cannot_be_written_is_told(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*TRAINMARK, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "No space left" in done.stderr and len(done.stderr.splitlines()) == 1


def test_after_ctrl_c_it_says_how_to_go_on(cli: Cli) -> None:
    command = [*TRAINMARK, "run", "noop:none:cpu:1:1:1@seconds=60", "--preset", "smoke", "--runs", str(cli.runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.startswith("run ")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"`trainmark resume {cli.run_id()}` goes on" in said


def test_after_a_run_the_page_is_named(cli: Cli) -> None:
    said = " ".join(cli("run", "noop").stdout.split())
    assert f"trainmark report {cli.run_id()} --format html" in said


@pytest.mark.parametrize(("state", "cure"), [("RUNNING", "trainmark status"), ("LOST", "trainmark resume")])
def test_a_run_that_works_needs_no_resume(state: str, cure: str) -> None:
    from types import SimpleNamespace

    from trainmark.spec.states import JobState

    side = SimpleNamespace(report=SimpleNamespace(run="r1", state=JobState(state)))
    with pytest.raises(Exception, match=cure):
        compare._check_finished(side)  # type: ignore[arg-type]


def test_a_command_that_always_fails_is_not_diagnosed_again_and_again(cli: Cli) -> None:
    suite = cli.folder / "bad.yaml"
    suite.write_text("cases:\n  - {command: [python3, -c, 'import sys; sys.exit(3)'], name: bad, nproc: 2}\n")
    said = cli("diagnose", str(suite), code=1)
    assert "not tried again" in said.stdout + said.stderr
    assert len(list((cli.runs / cli.run_id()).glob("*/round*/attempt1"))) == 3


@pytest.mark.parametrize(
    "argv", [("automl", "run", "--help"), ("import", "dlperf", "--help"), ("--lang", "zh", "--help")]
)
def test_help_into_a_full_disk_is_no_traceback(argv: tuple[str, ...]) -> None:
    for unbuffered in ("", "1"):
        env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        with Path("/dev/full").open("w") as full:
            done = subprocess.run([*TRAINMARK, *argv], stdout=full, stderr=subprocess.PIPE, text=True, env=env)
        assert "Traceback" not in done.stderr and done.stderr.count("\n") <= 1
