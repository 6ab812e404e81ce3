"""How many hosts are entered at the same time."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

import trainmark.agent
from trainmark.errors import SiteError
from trainmark.launch import node_zip
from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.ssh.connections import Connections

LIMIT, HOSTS = 3, 8
# In the place of ssh: tells that it has begun, waits until as many as may begin have, and becomes a real relay.
ENTER = """
echo + >> "$1"
while [ "$(grep -c + "$1")" -lt "$2" ]; do sleep 0.02; done
echo - >> "$1"
shift 2
exec "$@"
"""


class Entered(Connections):
    def __init__(self, folder: Path) -> None:
        super().__init__(LIMIT)
        self.log, self._folder = folder / "log", folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def open(self, reach: SshTarget, argv: list[str]) -> subprocess.Popen[bytes]:
        program = Path(trainmark.agent.__file__).with_name("__main__.py")
        relay = [sys.executable, "-I", "-S", str(program), "relay", str(self._folder / reach.host)]
        self.processes.append(super().open(reach, ["sh", "-c", ENTER, "enter", str(self.log), str(LIMIT), *relay]))
        return self.processes[-1]


def test_no_more_hosts_are_entered_at_once_than_the_limit_says(tmp_path: Path) -> None:
    """As many as that are, and all of them are reached in the end."""
    connections = Entered(tmp_path)
    links = [
        connections.link(SshTarget(f"h{number}", connect_seconds=120), node_zip.write(tmp_path))
        for number in range(HOSTS)
    ]
    for link in links:
        link.users += 1
    try:
        connections.reach(links)
        assert [link.why for link in links if not link.ready] == []
    finally:
        connections.close()
        for process in connections.processes:
            process.kill()
            process.wait()
    at_work = [0]
    for line in connections.log.read_text().split():
        at_work.append(at_work[-1] + (1 if line == "+" else -1))
    assert len(connections.processes) == HOSTS and at_work[-1] == 0
    assert max(at_work) == LIMIT


def test_open_files_are_made_room_for_or_the_need_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three files per host: 1024, which is usual, are enough for some 300."""
    limits = [1024, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.__setitem__(slice(None), list(pair)))
    connections = Connections()
    for number in range(1000):
        connections.link(SshTarget(f"h{number}"), tmp_path)
    assert limits == [3128, 4096], "no more than is needed"
    with pytest.raises(
        SiteError, match=r"2000 hosts need 6128 open files.*may have 4096, enough for 1322 hosts.*ulimit"
    ):
        connections.links([SshTarget(f"h{number}") for number in range(2000)], tmp_path)
