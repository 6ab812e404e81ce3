"""What the control side says to other hosts: words only, no host needed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainmark.agent.placeholders import agree_on
from trainmark.agent.relay.frames import Decoder, FrameError, encode
from trainmark.errors import UserError
from trainmark.launch import agent_command, trees
from trainmark.launch.protocol import AttemptSpec
from trainmark.launch.sites import load_site
from trainmark.launch.ssh import plan as ssh_plan
from trainmark.launch.ssh.command_line import SshTarget, command_line, explain
from trainmark.spec import notation
from trainmark.spec.site import Container, Site
from trainmark.testing.launchers import case_plan

HOSTILE = ["a b", "it's", 'say "x"', "$(touch oops)", "`id`", "line\nbreak", "*?[x]", "-rf", "\\", "é ü", "a;b|c&d", ""]


def test_arguments_are_quoted_once() -> None:
    """What a shell on the other side makes of the command is what was meant."""
    for odd in HOSTILE:
        reach = SshTarget("node1", work_dir=odd, node_python="/bin/echo")
        remote = command_line(reach, odd, 1, "ab")[-1]
        assert "\n" not in remote or "\n" in odd
        said = subprocess.run(["/bin/sh", "-c", remote], capture_output=True, text=True, check=True).stdout
        assert said.endswith(f" {odd} {odd} 1 ab\n") and shlex.split(remote)[-4:] == [odd, odd, "1", "ab"]


def test_options_of_ssh_come_before_the_host() -> None:
    words = command_line(SshTarget("node1", user="bench", port=2222, config="/c"), "z", 1, "ab")
    assert words[words.index("--") + 1] == "node1" and {"-l", "-p", "-F"} < set(words[: words.index("--")])
    assert "BatchMode=yes" in words and "StrictHostKeyChecking=yes" in words


# As OpenSSH 9.2p1 of Debian 12 says them to a batch with strict checking, recorded with hosts of the lab.
UNKNOWN_KEY = """\
No ED25519 host key is known for node1 and you have requested strict checking.\r
Host key verification failed.\r
"""
CHANGED_KEY = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\r
Someone could be eavesdropping on you right now (man-in-the-middle attack)!\r
It is also possible that a host key has just been changed.\r
The fingerprint for the ED25519 key sent by the remote host is
SHA256:OodFIFlXKbgirbKbB3JWq02eBd3RXg+ENJMXZlDHTfw.\r
Please contact your system administrator.\r
Add correct host key in /home/me/known_hosts to get rid of this message.\r
Offending ED25519 key in /home/me/known_hosts:1\r
  remove with:\r
  ssh-keygen -f "/home/me/known_hosts" -R "node1"\r
Host key for node1 has changed and you have requested strict checking.\r
Host key verification failed.\r
"""


def test_failures_of_ssh_in_plain_words() -> None:
    assert explain(255, "ssh: connect to host x port 22: Connection timed out", "p", "x").startswith(
        "it does not answer"
    )
    assert "refuses the key" in explain(255, "root@x: Permission denied (publickey).", "p", "x")
    changed, unknown = (explain(255, text, "p", "x") for text in (CHANGED_KEY, UNKNOWN_KEY))
    assert "is not the one that is known" in changed and "`ssh-keygen -R x`" in changed
    assert "is not known here" in unknown and "`ssh x`" in unknown and "ssh-keygen -R" not in unknown
    assert "there is no py9" in explain(127, "bash: py9: command not found", "py9", "x")
    assert explain(None, "", "p", "x") == "ssh did not get through in time"


def test_frames_in_any_pieces() -> None:
    sent = [({"op": "a", "x": "ü\n"}, b""), ({"op": "b"}, b"\n{}\x00" * 100), ({"op": "c"}, b"")]
    stream = b"".join(encode(header, payload) for header, payload in sent)
    for size in (1, 7, len(stream)):
        decoder, found = Decoder(), []
        for at in range(0, len(stream), size):
            found += decoder.feed(stream[at : at + size])
        assert [(header["op"], payload) for header, payload in found] == [(h["op"], p) for h, p in sent]
    with pytest.raises(FrameError):
        Decoder().feed(b"motd: welcome\n")


def test_host_names() -> None:
    assert notation.expand_hosts(["n[1-3]", "gpu[08-10,12]-ib", "x"], "f") == [
        *("n1", "n2", "n3", "gpu08-ib", "gpu09-ib", "gpu10-ib", "gpu12-ib", "x")
    ]
    assert notation.expand_hosts(["r[1-2]n[1-2]"], "f") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    for bad in ("n[3-1]", "n[a]", "n[1-2", "n[1-999999999]"):
        with pytest.raises(UserError, match=r"f: hosts: found"):
            notation.expand_hosts([bad], "f")


def test_sites_that_cannot_be_meant(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    (tmp_path / "hosts").write_text("# ours\nn1 slots=8\n\nn[2-3]\n")
    file.write_text("launcher: ssh\nhosts_file: hosts\nvenv: /opt/v/\nssh: {config: my_config}\n")
    site = load_site(file, "here")
    assert site.hosts == ["n1", "n2", "n3"] and site.python == "/opt/v/bin/python"
    assert site.launcher_options["config"] == str(tmp_path / "my_config")
    for text, match in {
        "hosts: [a, a]": "a named twice",
        "hosts: [a]\nwork_dir: relative": "absolute path on the hosts",
        "hosts: [a]\npython: bin/python": "absolute path on the hosts",
        "hosts: ['-oProxyCommand=x']": "allowed is a host name",
        "hosts: [a]\nssh: {user: '-x'}": "take for an option",
        "hosts: [a]\ncontainer: {engine: docker}": "image",
        "hosts: [a]\ncontainer: {image: x, engine: rkt}": "rkt",
    }.items():
        file.write_text(f"launcher: ssh\n{text}\n")
        with pytest.raises(UserError, match=match):
            load_site(file, "here")


def spec(tmp_path: Path, argv: tuple[str, ...]) -> AttemptSpec:
    case = case_plan(argv, ["n1", "n2"])
    folder = tmp_path / "run" / "case" / "round1" / "attempt1"
    return AttemptSpec("r", tmp_path / "run", folder, case, 1, 1, "ab" * 16, 1, 1)


def test_paths_become_those_of_the_host(tmp_path: Path) -> None:
    work = tmp_path / "work load"
    work.mkdir()
    (work / "main.py").write_text("print(1)")
    tree = trees.pack((str(work),))
    asked = spec(tmp_path, (sys.executable, str(work / "main.py"), "--like", f"{work}er/main.py"))
    job = ssh_plan.render(asked, asked.case.nodes[1], Site(launcher="ssh", hosts=["n1", "n2"]), tree, "z.pyz")
    argv = job.plan["ranks"][0]["argv"]
    assert argv[1] == f"{ssh_plan.WORK}/trees/{tree.name}/0-work load/main.py" and argv[3] == f"{work}er/main.py"
    assert job.dir == tmp_path / "run/case/round1/attempt1/n2_noderank1"
    assert job.plan["dir"].startswith(f"{ssh_plan.WORK}/runs/r-") and job.plan["dir"].endswith("/n2_noderank1")
    (work / "__pycache__").mkdir()
    (work / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert trees.pack((str(work),)).name == tree.name
    (work / "main.py").write_text("print(2)")
    assert trees.pack((str(work),)).name != tree.name


def test_the_first_node_holds_the_port_and_the_others_know_it(tmp_path: Path) -> None:
    asked = spec(tmp_path, ("train", "--port=%PORT0%"))
    site = Site(launcher="ssh", hosts=["n1", "n2"])
    plans = [ssh_plan.render(asked, node, site, None, "z.pyz").plan for node in asked.case.nodes]
    first, second = (agree_on(plan, [4711]) for plan in plans)
    assert first["ports"] == [4711] and first["ranks"][0]["argv"][1] == "--port=%PORT0%"
    assert second["ports"] == [] and second["ranks"][0]["argv"][1] == "--port=4711"


def test_the_command_of_a_container() -> None:
    asked = Container(image="my/image:1", mounts=["/data", "/a:/b:ro"], ulimits={"memlock": "-1"}, shm_size="1g")
    plan: dict[str, Any] = {"token": "ab" * 16, "node": 1, "run": "r1", "config": {"data": "/set"}}
    made = agent_command.in_container(asked, plan, ["python3", "agent"], "/work", "my/image:1")
    words = made.argv
    assert words[:4] == ["docker", "run", "--rm", "--pull=never"] and words[-3:] == ["my/image:1", "python3", "agent"]
    assert {"--volume=/data:/data", "--volume=/a:/b:ro", "--volume=/set:/set:ro", "--volume=/work:/work"} < set(words)
    assert {"--label=trainmark.run=r1", f"--name={made.name}", "--ulimit=memlock=-1", "--shm-size=1g"} < set(words)
    other = agent_command.in_container(asked, {**plan, "node": 0}, ["python3"], "/work", "my/image:1")
    assert other.name != made.name
    assert "--ipc=private" in words
    plain = agent_command.in_container(Container(image="i", ipc="host", shm_size="1g"), plan, [], "/work", "i").argv
    assert "--ipc=host" in plain and "--shm-size=1g" not in plain, "podman refuses both"


def test_modules_are_arguments_of_a_fixed_text(tmp_path: Path) -> None:
    (tmp_path / ".bash_profile").write_text('module() { echo "loads $2"; }\n')
    argv = agent_command.with_modules(["cuda/12", "odd $(id)"], ["/bin/echo", "agent", "a b"])
    done = subprocess.run(argv, capture_output=True, text=True, env={"HOME": str(tmp_path), "PATH": "/bin:/usr/bin"})
    assert done.stdout == "loads cuda/12\nloads odd $(id)\nagent a b\n", done.stderr
