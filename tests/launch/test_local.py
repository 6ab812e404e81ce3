from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from trainmark.launch.local.launcher import LocalLauncher, start_agent
from trainmark.launch.protocol import Launcher
from trainmark.spec.site import Site
from trainmark.store.rundir import NODE_PLAN
from trainmark.testing.launchers import LauncherContract


class TestLocal(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Launcher:
        return LocalLauncher()

    @pytest.fixture
    def site(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
        # Its check imports PyTorch; the real one takes seconds.
        (tmp_path / "torch.py").write_text('__version__ = "1.0"\n\ndef get_num_threads():\n    return 1\n')
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return Site(hosts=[os.uname().nodename])


def test_an_agent_holds_nothing_of_its_controller(tmp_path: Path) -> None:
    """Session, files, signals: those of a process of its own. It waits at a pipe, where it is looked at."""
    os.mkfifo(tmp_path / NODE_PLAN)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with (tmp_path / "held").open("w") as held:
            agent = start_agent(tmp_path)
            plan = _opened(tmp_path / NODE_PLAN)
            proc = Path(f"/proc/{agent.pid}")
            status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
            links = [os.readlink(link) for link in (proc / "fd").iterdir()]
            session = os.getsid(agent.pid)
            agent.kill()
            agent.wait()
            os.close(plan)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert session == agent.pid, "it would get the controller's Ctrl-C"
    assert held.name not in links, "a lock or a journal is held by two"
    assert int(status["SigBlk"], 16) == 0
    assert not int(status["SigCgt"], 16) & 1 << (signal.SIGTERM - 1)


def _opened(fifo: Path) -> int:
    """The pipe's end for writing, once the agent reads at the other."""
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.01)


def test_events_that_a_full_disk_left_in_a_spool_are_shipped_later(tmp_path: Path) -> None:
    """Whoever drives or stops the run next does it, once the attempt is over."""
    node = tmp_path / "case" / "round1" / "attempt1" / "here_noderank0"
    (node / "spool").mkdir(parents=True)
    (node / "events.jsonl").write_bytes(b'{"k":"A","rank":0,"seq":0,"t":1}\n')
    lines = b'{"k":"A","rank":0,"seq":0,"t":1}\n{"k":"B","rank":0,"seq":1,"t":2}\n'
    (node / "spool" / "rank0.jsonl").write_bytes(lines)
    launcher = LocalLauncher()
    assert launcher.release(tmp_path) == [] and (node / "spool").exists(), "its agent may still write to it"
    (node / "result.json").write_text("{}")
    assert launcher.release(tmp_path) == []
    assert (node / "events.jsonl").read_bytes() == lines and not (node / "spool").exists()
