"""Nothing is left: whatever the ranks start, and whoever is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from trainmark.agent.events.shipper import complete

from .harness import Node, agent_says, carriers, until

# Children that try to get away: a session of their own, a double fork, and no environment at all.
FUGITIVES = """
    import subprocess, sys
    token = os.environ["TRAINMARK_TOKEN"]
    quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    subprocess.Popen(sleeper, start_new_session=True, **quiet)
    middle = os.fork()
    if middle == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sleeper[0], [*sleeper, "double"])
        os._exit(0)
    os.waitpid(middle, 0)
    subprocess.Popen([*sleeper, "MARK-" + token], env={}, start_new_session=True, **quiet)
    begin()
    step(1)
    step(2)
    if MODE == "stay":
        time.sleep(600)
"""


def fugitives(node: Node, mode: str) -> list[str]:
    return node.script(f"MODE = {mode!r}\n" + "\n".join(line[4:] for line in FUGITIVES.splitlines()))


def until_all_run(node: Node, shipped: bool = False) -> None:
    """The rank, its three fugitives, and its events are there (in the spool, or where the agent has put them)."""
    until(lambda: len(carriers(node.token)) == 4)
    spool = node.dir / "spool" / "rank0.jsonl"
    until(lambda: spool.exists() and spool.read_bytes().count(b"\n") == 4)
    if shipped:
        until(lambda: node.status()["ranks"][0]["step"] == 2)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def seqs(node: Node) -> list[int]:
    return [event["seq"] for event in node.events()]


def cgroup_is_gone(node: Node) -> bool:
    return not any(node.token in folder for folder, _, _ in os.walk("/sys/fs/cgroup"))


def test_children_that_outlive_their_rank(node: Node, containment: str) -> None:
    result = node.ranks(fugitives(node, "leave")).run(containment=containment)
    assert result["state"] == "SUCCEEDED"
    assert result["warnings"] == ["3 processes were left by the ranks and killed"]
    assert cgroup_is_gone(node)


COMET = """
import os, sys, time
os.setsid()
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
"""


def test_a_process_that_forks_and_exits_all_the_time(node: Node, containment: str) -> None:
    argv = [node.python, "-I", "-S", "-c", COMET]
    text = f"""
        if os.fork() == 0:
            os.execv({argv[0]!r}, {argv!r})
        begin()
        time.sleep(0.2)
        """
    result = node.ranks(node.script(text)).run(containment=containment)
    assert result["state"] == "SUCCEEDED"
    assert "left by the ranks and killed" in result["warnings"][0]


def test_children_of_a_rank_that_is_stopped(node: Node, containment: str) -> None:
    node.ranks(fugitives(node, "stay")).start(containment=containment)
    until_all_run(node)
    node.signal()
    assert node.wait() == 0
    assert node.result()["state"] == "CANCELLED"
    assert cgroup_is_gone(node)


def test_the_agent_is_killed(node: Node, containment: str) -> None:
    node.ranks(fugitives(node, "stay")).start(containment=containment)
    until_all_run(node, shipped=True)
    kill(node.worker())
    code = node.wait()
    until(lambda: not carriers(node.token))
    assert cgroup_is_gone(node)
    if containment == "pidns":  # the kernel has ended everything; who collects the folder completes it
        assert code == -signal.SIGKILL
        assert not (node.dir / "result.json").exists()
        assert (complete(str(node.dir)), complete(str(node.dir))) == (0, 0)
    else:
        assert code == 70
        result = node.result()
        assert (result["state"], result["reason"]) == ("FAILED", "the agent was killed by signal 9")
        assert result["first_failure"]["kind"] == "agent"
        assert (result["ranks"][0]["samples"], result["events"]) == (8, 4)
        assert result["settings"]["threads"] >= 1
    assert seqs(node) == [0, 1, 2, 3]
    assert not (node.dir / "spool").exists()


def test_events_the_killed_agent_had_not_shipped(node: Node, containment: str) -> None:
    argv = node.script(
        """
        begin()
        for number in range(1, 2000):
            step(number)
            if number % 100 == 0:
                time.sleep(0.05)
        open(os.environ["TRAINMARK_CONFIG"] + ".done", "w").close()
        time.sleep(600)
        """
    )
    node.ranks(argv).start(containment=containment)
    until(lambda: (node.dir / "config.json.done").exists())
    kill(node.worker())
    node.wait()
    until(lambda: not carriers(node.token))
    complete(str(node.dir))
    assert seqs(node) == list(range(2001))


@pytest.mark.parametrize("containment", ["cgroup", "subreaper"], indirect=True)  # a pid namespace needs no guardian
def test_the_guardian_is_killed(node: Node, containment: str) -> None:
    node.ranks(fugitives(node, "stay")).start(containment=containment)
    until_all_run(node)
    worker = node.worker()
    assert node.agent is not None
    kill(node.agent.pid)
    node.agent.wait()
    until(lambda: (node.dir / "result.json").exists())
    result = node.result()
    assert (result["state"], result["reason"]) == ("FAILED", "the guardian of the agent was killed")
    assert seqs(node) == [0, 1, 2, 3]
    until(lambda: not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text())


def test_agent_and_guardian_are_killed_then_the_sweep(node: Node, containment: str) -> None:
    node.ranks(fugitives(node, "stay")).start(containment=containment)
    until_all_run(node)
    worker = node.worker()
    assert node.agent is not None
    os.kill(worker, signal.SIGSTOP)  # it must not notice before it dies
    kill(node.agent.pid)
    if worker != node.agent.pid:
        kill(worker)
    node.agent.wait()
    swept = agent_says("sweep", node.token)
    assert swept["left"] == 0
    left = carriers(node.token)
    if containment == "subreaper":  # a child that hid its environment is out of reach
        assert all("MARK-" in command for command in left.values())
        for pid in left:
            kill(pid)
    until(lambda: not carriers(node.token))
    assert cgroup_is_gone(node)
    assert agent_says("sweep", node.token) == {"killed": 0, "left": 0}
    complete(str(node.dir))
    assert seqs(node) == [0, 1, 2, 3]


def test_ranks_see_a_proc_of_their_own(node: Node, containment: str) -> None:
    text = "import os; print(os.getpid() == int(os.readlink('/proc/self')), os.path.exists('/proc/1/stat'))"
    result = node.ranks([node.python, "-c", text]).run(containment=containment, probe=False)
    assert node.output() == "True True\n"
    assert result["ranks"][0]["pid"] > 1
    assert json.loads((node.dir / "agent.json").read_text())["start_ticks"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts and chroot")
def test_a_root_that_is_no_mount(node: Node, tmp_path: Path) -> None:
    """There the mounts of a namespace cannot be made private: it is entered, left again, and the next kind is used."""
    root = tmp_path / "root"
    places = [path for path in Path("/").iterdir() if path.is_dir() and not path.is_symlink() and path.name != "sys"]
    links = [path for path in Path("/").iterdir() if path.is_symlink()]
    script = [f"mkdir -p {root}/{path.name} && mount --rbind {path} {root}/{path.name}" for path in places]
    script += [f"ln -s {os.readlink(path)} {root}/{path.name}" for path in links]
    (tmp_path / "enter.sh").write_text("\n".join(["set -e", f"mkdir {root}", *script, f'exec chroot {root} "$@"']))
    node.before = ["unshare", "--mount", "sh", str(tmp_path / "enter.sh")]
    result = node.ranks(node.script("begin(); say('FINISHED')")).run()
    assert result["state"] == "SUCCEEDED"
    assert result["containment"]["used"] != "pidns"
    assert any(why.startswith("pidns: ") for why in result["containment"]["why"]), result["containment"]
