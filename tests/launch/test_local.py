from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainmark.launch.local.launcher import LocalLauncher
from trainmark.launch.protocol import Launcher
from trainmark.spec.site import Site
from trainmark.testing.launchers import LauncherContract


class TestLocal(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Launcher:
        return LocalLauncher()

    @pytest.fixture
    def site(self) -> Site:
        return Site(hosts=[os.uname().nodename])


@pytest.mark.parametrize("threads", [False, True], ids=["forked", "with threads"])
def test_an_agent_holds_nothing_of_its_controller(tmp_path: Path, threads: bool) -> None:
    """Session, name, files, signals: those of a process of its own, however it was started."""
    program = tmp_path / "controller.py"
    program.write_text(CONTROLLER)
    argv = [sys.executable, str(program), str(tmp_path / "attempt"), str(int(threads))]
    said = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout)
    assert said["session"] == said["pid"], "it would get the controller's Ctrl-C"
    assert (said["name"] == "trainmark-agent") != threads
    assert said["controller's"] == [], "a lock or a journal is held by two"
    assert said["masked"] == said["catches"] == 0


# A controller with an open file and a handler; its agent waits at a pipe, where it is looked at.
CONTROLLER = """
import json, os, signal, sys, threading, time
from pathlib import Path
from trainmark.launch import local_start
from trainmark.store.rundir import NODE_PLAN

folder, threads = Path(sys.argv[1]), sys.argv[2] == "1"
folder.mkdir()
os.mkfifo(folder / NODE_PLAN)
held = (folder / "held").open("w")
os.set_inheritable(held.fileno(), False)
signal.signal(signal.SIGTERM, lambda *_: None)
if threads:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
pid = local_start.start(folder)
while True:
    try:
        plan = os.open(folder / NODE_PLAN, os.O_WRONLY | os.O_NONBLOCK)
        break
    except OSError:  # nobody reads it yet
        time.sleep(0.01)
proc = Path(f"/proc/{pid}")
status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
links = [os.readlink(link) for link in (proc / "fd").iterdir()]
bit = 1 << (signal.SIGTERM - 1)
print(json.dumps({
    "pid": pid, "session": os.getsid(pid), "name": (proc / "comm").read_text().strip(),
    "controller's": [link for link in links if link == held.name],
    "masked": int(status["SigBlk"], 16), "catches": int(status["SigCgt"], 16) & bit,
}))
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
os._exit(0)
"""
