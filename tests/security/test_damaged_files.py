"""A damaged file in a run: the run is named as damaged, the others are shown, and nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.harness import SPEAKER
from tests.conftest import Cli
from tests.security.damage import damaged
from trainmark.run import lease
from trainmark.store.rundir import RunDir

FILES = {
    "manifest.json": 60,
    "journal.jsonl": 25,
    "lease.json": 20,
    "agent.json": 30,
    "facts.json": 25,
    "result.json": 45,
    "samples.jsonl": 20,
    "status.json": 20,
    "config.json": 10,
    "node.json": 20,
    "events.jsonl": 20,
}


@pytest.fixture
def runs(cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]) -> tuple[Path, RunDir]:
    """Two real runs: one stays as it is."""
    folder = make_workload("from speaker import *\nbegin()\nfor n in range(40): step(n + 1)\nsay('FINISHED')\n")
    (folder / "speaker.py").write_text(SPEAKER)
    cli("run", str(make_suite("  - thing:none:cpu:1:1:1")), "--no-check", code=None)
    whole = cli.runs / cli.run_id()
    hurt = cli.runs / "20990101-000000-suite-ffff"
    shutil.copytree(whole, hurt, symlinks=True)
    return whole, RunDir(hurt)


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_a_finding(
    cli: Cli, runs: tuple[Path, RunDir], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "WATCH_SECONDS", 0.0)  # of an owner on another host, if that is what the damage says
    whole, hurt = runs
    (file,) = [path for path in hurt.path.rglob(name) if not path.is_symlink()]
    content, chance = file.read_bytes(), random.Random(name)
    open_again = hurt.path / "journal.jsonl"
    before = open_again.read_bytes()
    for number in range(FILES[name]):
        file.write_bytes(bad := damaged(content, chance))
        if name in ("agent.json", "node.json", "lease.json", "status.json", "result.json") and number % 2:
            # As if its controller had just been killed: what is there is looked at by the next one.
            lines = before.splitlines(keepends=True)
            open_again.write_bytes(b"".join(lines[:3]))
            verbs = [("resume", hurt.id), ("status", hurt.id)]
        else:
            verbs = [
                ("list",),
                ("report", hurt.id),
                ("status", hurt.id),
                ("logs", hurt.id),
                ("stop", hurt.id, "--timeout", "0.1"),
            ]
        for verb in verbs:
            done = cli(*verb, code=None)
            assert "Traceback" not in done.stderr and done.returncode in (0, 1, 2, 3), (verb, bad[:300], done.stderr)
            if verb == ("list",):
                assert whole.name in done.stdout and hurt.id in done.stdout
        file.write_bytes(content)
        open_again.write_bytes(before)
        for left in ("lease.json", "stop.json"):
            if left != name:
                (hurt.path / left).unlink(missing_ok=True)
        for extra in hurt.path.glob("*/round1/attempt[2-9]*"):
            shutil.rmtree(extra)


def test_one_bad_manifest_is_named_among_the_others(cli: Cli, runs: tuple[Path, RunDir]) -> None:
    whole, hurt = runs
    (hurt.path / "manifest.json").write_bytes(b'{"schema": 10, "plan"')
    listed = cli("list").stdout
    assert whole.name in listed and "INVALID" in listed
    assert "manifest.json: broken" in cli("report", hurt.id, code=2).stderr


@pytest.mark.parametrize("value", [True, "1", -1, 1 << 70, None, 1.5])
def test_a_claim_whose_pid_is_no_pid_is_of_no_process(cli: Cli, runs: tuple[Path, RunDir], value: object) -> None:
    _, hurt = runs
    (file,) = hurt.path.rglob("agent.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "pid": value}))
    journal = hurt.path / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    done = cli("resume", hurt.id, code=None)
    assert "Traceback" not in done.stderr and done.returncode in (0, 1), done.stderr


def test_a_truncated_lease_has_a_cure(cli: Cli, runs: tuple[Path, RunDir]) -> None:
    _, hurt = runs
    for content in (b"", b'{"epoch": 10, "ho', b"\xff", b"[" * 100_000):
        (hurt.path / "lease.json").write_bytes(content)
        assert "nothing left to do" in cli("resume", hurt.id, code=None).stdout


def test_a_pipe_in_place_of_a_file_is_not_waited_for(cli: Cli, runs: tuple[Path, RunDir]) -> None:
    _, hurt = runs
    for name in ("lease.json", "journal.jsonl", "manifest.json"):
        (hurt.path / name).unlink()
        os.mkfifo(hurt.path / name)
        assert hurt.id in cli("list").stdout or name == "manifest.json"
        assert cli("report", hurt.id, code=None).returncode in (0, 1, 2)
    assert cli("list").stdout


def test_a_device_in_place_of_the_journal_is_not_read(cli: Cli, runs: tuple[Path, RunDir]) -> None:
    _, hurt = runs
    (hurt.path / "journal.jsonl").unlink()
    (hurt.path / "journal.jsonl").symlink_to("/dev/zero")
    assert "journal.jsonl: cannot be read" in cli("report", hurt.id, code=2).stderr
