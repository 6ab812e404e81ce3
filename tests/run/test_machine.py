"""Runs hold their hosts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import Cli
from trainmark.run import machine

_CLAIM = """
import pathlib, sys
from trainmark.run import machine
machine.try_claim(pathlib.Path(sys.argv[1]), {"n1": None})
"""


def test_a_host_is_held_once_and_let_go(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert machine.try_claim(one, {"n1": [0, 1], "n2": None}) == []
    assert machine.try_claim(one, {"n1": None}) == []  # its own
    assert [claim.run for claim in machine.try_claim(other, {"n1": [1, 2]})] == [str(one)]
    assert [claim.run for claim in machine.try_claim(other, {"n2": [5]})] == [str(one)]
    assert machine.try_claim(other, {"n1": [2]}) == []
    machine.release(one)
    assert [claim.run for claim in machine.claims()] == [str(other)]


def test_what_a_process_held_is_free_when_it_is_gone(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _CLAIM, str(tmp_path)], check=True)
    assert machine.claims() == []


def test_a_child_that_is_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    with machine._locked():
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
    try:
        subprocess.run([sys.executable, "-c", _CLAIM, str(tmp_path)], check=True, timeout=20)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_a_run_of_the_command_line_waits_and_can_be_stopped(cli: Cli) -> None:
    other = cli.folder / "by-hand"
    assert machine.try_claim(other, {os.uname().nodename: None}) == []
    waiting = cli.start("run", "noop:none:cpu:1:1:1", "--preset", "smoke")
    deadline = time.monotonic() + 60
    while not list(cli.runs.glob("*/lease.json")):
        assert waiting.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    cli("stop")
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 130 and "by-hand" in out + err
    machine.release(other)
    assert cli("resume").returncode == 0
