"""What is wrong with disks, files, ports and data."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.faults.conftest import case_named
from trainmark.i18n.speaker import say

Make = Callable[..., Path]
pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    if os.geteuid() != 0:
        pytest.skip("a small file system needs root to mount it")
    folder = tmp_path / "runs"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_disk_full(cli: Cli, misbehave: Make, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPS", "50")
    found = cli("run", str(misbehave("fill", procs=1)), "--json", code=None)
    assert found.returncode in (1, 3), found.stderr
    text = found.stdout + found.stderr
    assert "No space left" in text or "disk is full" in text, text
    run = cli.run_id()
    status = cli.json("status", run)
    (bad,) = [row for row in status["rounds"] if "fill" in row["case"]]
    assert bad["state"] in ("FAILED", "RUNNING", "LOST")
    # With room again, the rest is done.
    for ballast in small_disk.glob("*/*/round*/attempt*/*/rank0/ballast"):
        ballast.unlink()
    monkeypatch.setenv("STEPS", "1")
    report = cli.json("resume", run)
    assert {case["state"] for case in report["cases"]} == {"SUCCEEDED"}, report


def test_torn_lines_are_passed_over_with_a_warning(cli: Cli, misbehave: Make) -> None:
    cli("run", str(misbehave("good-enough", procs=1)))
    run = cli.runs / cli.run_id()
    with (run / "journal.jsonl").open("a") as out:
        out.write('{"k":"ended","epo')
    events = next(run.glob("*/round1/attempt1/*/events.jsonl"))
    with events.open("a") as out:
        out.write('{"k":"STEP_END","rank":0,"se')
    report = json.loads(cli("report", "--format", "json").stdout)
    assert report["state"] == "SUCCEEDED" and len(report["warnings"]) == 3
    assert report["warnings"][-1]["code"] == "file-changed", "its digest tells, too"
    assert all(case["measurements"]["steps"]["value"] == 5 for case in report["cases"])
    cli("resume")


def test_port_taken(cli: Cli, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = holder.getsockname()[1]
        site.write_text(f"schema: 1\nmaster_port: {port}\n")
        suite = tmp_path / "suite.yaml"
        suite.write_text(
            "schema: 1\nname: s\npreset: smoke\ncases: ['noop:pytorch:cpu:1:1:1', 'noop:none:cpu:1:1:1']\n"
        )
        report = cli.json("run", str(suite), "--site", str(site), code=1)
    bad = case_named(report, "pytorch")
    assert bad["state"] == "FAILED" and str(port) in say(bad["reason"]) and bad["failure"]["kind"] == "port", bad
    assert case_named(report, "none")["state"] == "SUCCEEDED"


def test_missing_data_is_skipped(cli: Cli, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text("schema: 1\nname: s\npreset: smoke\ncases: ['mnist:pytorch:cpu:1:1:1', 'noop:none:cpu:1:1:1']\n")
    report = cli.json("run", str(suite), code=1)
    skipped = case_named(report, "mnist")
    assert skipped["state"] == "SKIPPED" and "trainmark data get fashion-mnist" in say(skipped["reason"])
    assert (report["state"], case_named(report, "noop")["state"]) == ("SKIPPED", "SUCCEEDED")
    allowed = cli.json("run", str(suite), "--allow-skip", code=0)
    assert allowed["state"] == "SKIPPED", "a program that reads the result sees it all the same"
    suite.write_text("schema: 1\nname: s\npreset: smoke\ncases: ['mnist:pytorch:cpu:1:1:1']\n")
    cli("run", str(suite), "--allow-skip", code=1)  # nothing was measured


def test_unreadable_data_fails_with_the_file_named(cli: Cli, tmp_path: Path) -> None:
    broken = tmp_path / "data"
    broken.mkdir()
    (broken / "train-images-idx3-ubyte").write_bytes(b"\x00\x00\x08\x03 not much")
    report = cli.json("run", "mnist:pytorch:cpu:1:1:1", "--preset", "smoke", "--set", f"data={broken}", code=1)
    (case,) = report["cases"]
    assert case["state"] == "FAILED"
    assert any(str(broken) in line for line in case["failure"]["last_lines"]), case["failure"]


def test_a_dtype_without_units_is_skipped(cli: Cli) -> None:
    flags = Path("/proc/cpuinfo").read_text()
    if "avx512_bf16" in flags or "amx_bf16" in flags:
        pytest.skip("this CPU has bf16 units")
    report = cli.json("run", "resnet50:pytorch:cpu:1:1:1@dtype=bf16", "--preset", "smoke", code=1)
    assert report["cases"][0]["state"] == "SKIPPED" and "bf16" in say(report["cases"][0]["reason"])
