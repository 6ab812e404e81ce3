"""The nodes of one command, as processes on this machine: the head with its `ssh`, and a member."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trainmark.agent
from trainmark.agent.mpi import messages, wrappers
from trainmark.agent.placeholders import fill_hosts
from trainmark.agent.secrets import environment_text

AGENT = [sys.executable, "-I", "-S", str(Path(trainmark.agent.__file__).with_name("__main__.py"))]
TOKEN, KEY = "ab12" * 8, "ef56" * 8
PROGRAM = [sys.executable, "-c", "import os; print(os.getcwd(), os.environ['RANK'], os.environ['TRAINMARK_SPOOL'])"]


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def verb(tmp_path: Path) -> Iterator[Start]:
    """Starts a verb of the agent as a node of its own, which has its own spool and folder."""
    begun = []

    def start(node: str, *words: str, key: str = KEY, **env: str) -> subprocess.Popen[str]:
        spool = tmp_path / node / "spool"
        spool.mkdir(parents=True)
        (tmp_path / node / "node.json").write_text(json.dumps({"key": key}))
        config = tmp_path / node / "config.json"
        config.write_text(json.dumps({"code": str(tmp_path)}))
        own = {"TRAINMARK_TOKEN": TOKEN, "TRAINMARK_SPOOLS": str(spool), "TRAINMARK_CONFIG": str(config), "NODE": node}
        begun.append(
            subprocess.Popen(
                [*AGENT, *words], env={**os.environ, **own, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, start_new_session=True,
            )
        )  # fmt: skip
        return begun[-1]

    yield start
    for process in begun:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def run(verb: Start, port: int, script: str) -> tuple[Any, str, str]:
    """A script on the head; the member's process, and what the script has printed."""
    member = verb("far", "mpi-member", "127.0.0.1", str(port), "far", *PROGRAM)
    command = ["sh", "-c", script]
    head = verb("near", "mpi-head", str(port), "1", str(len(command)), *command, *PROGRAM)
    out, err = head.communicate(timeout=120)
    return member, out, err


def test_what_runs_behind_a_door_is_that_node_s(verb: Start, port: int) -> None:
    script = "ssh -o BatchMode=yes -p 22 root@far 'echo $NODE; echo bad >&2; exit 3'; echo code $?; ssh nobody true"
    member, out, err = run(verb, port, script)
    assert out == "far\ncode 3\n" and "bad\n" in err and "no node nobody; there is far" in err
    assert member.wait(30) == 1, "the script has ended badly, so its other nodes have"


def test_a_rank_has_a_folder_and_a_spool_on_its_own_node(verb: Start, port: int, tmp_path: Path) -> None:
    """Even when its launcher hands it the environment of another node."""
    script = "OMPI_COMM_WORLD_RANK=0 trainmark-rank && ssh far 'SLURM_PROCID=9 PMIX_RANK=1 SECRET_KEY=x trainmark-rank'"
    member, out, _ = run(verb, port, script)
    assert out == "".join(
        f"{tmp_path}/{n}/rank{r} {r} {tmp_path}/{n}/spool/rank{r}.jsonl\n" for n, r in (("near", 0), ("far", 1))
    )
    assert member.wait(30) == 0
    assert os.readlink(tmp_path / "far/rank1/code") == str(tmp_path)
    log = (tmp_path / "far/rank1/env.log").read_text()
    assert "PMIX_RANK=1\n" in log and "SECRET_KEY=***\n" in log and TOKEN not in log


def test_strangers_are_not_obeyed_and_not_believed(verb: Start, port: int) -> None:
    """Neither by the head, which goes on waiting for its member, nor by a member."""
    script = ["sh", "-c", "ssh far 'echo $NODE'"]
    head = verb("near", "mpi-head", str(port), "1", str(len(script)), *script, *PROGRAM)
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
                stranger.sendall(b'{"op":"member","host":"far","proof":"00","nonce":"1"}\n')
                assert b'"who"' in stranger.recv(4096) and stranger.recv(4096) == b""
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    wrong = verb("wrong", "mpi-member", "127.0.0.1", str(port), "far", *PROGRAM, key="cd34" * 8)
    time.sleep(0.5)
    assert head.poll() is None and wrong.poll() is None
    verb("far", "mpi-member", "127.0.0.1", str(port), "far", *PROGRAM)
    assert head.communicate(timeout=120)[0] == "far\n"


def test_a_head_that_knows_the_token_alone_is_not_obeyed(verb: Start, port: int, tmp_path: Path) -> None:
    """The token is no secret: it is in the arguments of container engines. A held port can be listened on by others."""
    with socket.create_server(("127.0.0.1", port)) as fake:
        verb("far", "mpi-member", "127.0.0.1", str(port), "far", *PROGRAM)
        fake.settimeout(30)
        raw, _ = fake.accept()
        member = messages.Connection(raw)
        member.send({"op": "who", "nonce": "00"})
        said = ("00", str(member.expect("member")["nonce"]), "far")
        member.send({"op": "head", "proof": messages._proof(TOKEN, "head", said)})
        with contextlib.suppress(messages.ConnectionLost):
            member.send({"op": "run", "id": 1, "command": f"touch {tmp_path}/obeyed"})
        with pytest.raises(messages.ConnectionLost):
            while True:
                member.read()
        raw.close()
    assert not (tmp_path / "obeyed").exists()


@pytest.mark.parametrize("victim", ["member", "head"])
def test_one_that_is_killed_ends_the_others(verb: Start, port: int, victim: str) -> None:
    member = verb("far", "mpi-member", "127.0.0.1", str(port), "far", *PROGRAM)
    script = ["sh", "-c", "ssh far 'echo here; exec sleep 600'"]
    head = verb("near", "mpi-head", str(port), "1", str(len(script)), *script, *PROGRAM)
    assert head.stdout is not None and head.stdout.readline() == "here\n"
    (member if victim == "member" else head).kill()
    other = head if victim == "member" else member
    assert other.wait(30) == 1
    assert other.stderr is not None and "has gone" in other.stderr.read()


def test_a_command_that_is_not_there_is_named(verb: Start) -> None:
    done = verb("near", "mpi-head", "0", "0", "1", "mpirun-of-nowhere", *PROGRAM)
    assert "mpirun-of-nowhere cannot be started: No such file" in done.communicate(timeout=120)[1]
    assert done.returncode == 127


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["far", "true"], ("far", "true")),
        (["-x", "-p", "2222", "me@far", "-q", "orted", "-mca", "x y"], ("far", "orted -mca x y")),
        (["-oBatchMode=yes", "-i", "key", "--", "far", "-v"], ("far", "-v")),
        (["far"], ("far", "")),
    ],
)
def test_what_ssh_is_asked(words: list[str], expected: tuple[str, str]) -> None:
    assert wrappers.parse(words) == expected


def test_stand_ins_for_hosts_are_filled_also_in_lists() -> None:
    argv = ["srun", "--nodelist", "%HOST0%,%HOST1%", "tcp://%HOST0%:%PORT0%"]
    filled = fill_hosts({"node": 0, "host": "", "env": {}, "ranks": [{"argv": argv, "env": {}}]}, ["n7", "n8"])
    assert filled["host"] == "n7"
    assert filled["ranks"][0]["argv"] == ["srun", "--nodelist", "n7,n8", "tcp://n7:%PORT0%"]


def test_only_values_known_to_matter_are_written_down() -> None:
    hidden = {
        "AWS_SECRET_ACCESS_KEY": "a",
        "password": "b",
        "DB_PASS": "c",
        "PGPASS": "d",
        "MYSQL_PWD": "e",
        "AZURE": "AccountKey=f;x",
        "SLURM_JWT": "eyJhbGciOiJIUzI1NiJ9",
        "OMP_PLACES": "https://me:pw@proxy:3128",
        "HOME": "/root",
    }
    kept = {"OMP_NUM_THREADS": "4", "RANK": "1", "SLURM_PROCID": "9", "LD_LIBRARY_PATH": "1\n2", "PWD": "/x"}
    text = environment_text({**hidden, **kept})
    assert text.count("=***\n") == len(hidden) and not [one for one in hidden.values() if f"={one}\n" in text]
    assert "RANK=1\n" in text and "LD_LIBRARY_PATH=1\\n2\n" in text and "PWD=/x\n" in text
