"""Ssh between the workers of one job: keys that are made for it, an sshd on each worker, and an `ssh` that knows both.

Private keys never leave the worker that made them. Host keys are checked: each worker tells the others its own. All of
it is in the spool of the attempt, which is removed with it.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import socket
import subprocess
import sys
import time
from typing import Any, Mapping

from trainmark.agent.files import replace_json, write_file
from trainmark.agent.placeholders import address
from trainmark.agent.workers.home import BIN

SESSION = "session.json"
_SERVER_PATH = "/usr/sbin:/sbin:/usr/local/sbin"
_READY_SECONDS = 30.0
_CONFIG = """\
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
PubkeyAuthentication yes
PasswordAuthentication no
PermitRootLogin prohibit-password
# The folder is this account's own, wherever it lies.
StrictModes no
AllowUsers {user}
AllowTcpForwarding no
AllowAgentForwarding no
X11Forwarding no
PermitTunnel no
PrintMotd no
MaxStartups 1000
MaxSessions 1000
LogLevel ERROR
ForceCommand {session}
"""


class SshError(Exception):
    """Workers cannot be entered by ssh."""


class Sshd:
    """The constructor makes the keys of this worker."""

    def __init__(self, folder: str, port: int) -> None:
        self._folder, self._port = folder, port
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._user = pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            raise SshError("account %d has no name here (in /etc/passwd of the image)" % os.geteuid()) from None
        self._peers: list[str] = []
        self._programs = {name: _program(name) for name in ("sshd", "ssh", "ssh-keygen")}
        for name in ("host_key", "client_key"):
            if os.path.exists(self._file(name)):
                continue  # it was opened before
            made = [self._programs["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", self._file(name)]
            done = subprocess.run(made, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                raise SshError("ssh-keygen: %s" % done.stdout.decode(errors="replace").strip())

    def public_keys(self) -> dict[str, str]:
        keys = {}
        for name in ("host_key", "client_key"):
            with open(self._file(name + ".pub")) as file:
                keys[name] = " ".join(file.read().split()[:2])
        return keys

    def start(self, peers: list[dict[str, Any]], hosts: list[str], env: Mapping[str, str]) -> None:
        """`peers`: the public keys of all workers, in their order. Returns once this worker can be entered."""
        known = ["worker-%d %s\n" % (number, peer["host_key"]) for number, peer in enumerate(peers)]
        write_file(self._file("known_hosts"), "".join(known))
        write_file(self._file("ssh_config"), self._client_config(hosts, env))
        wrapper = '#!/bin/sh\nexec %s -F %s "$@"\n' % (self._programs["ssh"], shlex.quote(self._file("ssh_config")))
        path = os.path.join(self._folder, BIN, "ssh")
        write_file(path, wrapper)
        os.chmod(path, 0o700)
        self._peers = [str(peer["client_key"]) for peer in peers]
        self.serve([], env)

    def serve(self, keys: list[str], env: Mapping[str, str]) -> None:
        """Whoever has one of these keys enters in this environment. Returns once that is so."""
        self.let_in(keys)
        agent = [sys.executable, "-I", "-S", os.path.abspath(sys.argv[0])]
        session = " ".join(shlex.quote(word) for word in [*agent, "worker-session", self._file(SESSION)])
        values = {"port": self._port, "folder": self._folder, "user": self._user, "session": session}
        write_file(self._file("sshd_config"), _CONFIG.format(**values))
        replace_json(self._file(SESSION), dict(env), mode=0o600)
        self._serve()

    def let_in(self, keys: list[str]) -> None:
        """People, by their public keys, besides the workers; those who are in stay. sshd reads them at each entry."""
        write_file(self._file("authorized_keys"), "".join("%s\n" % key for key in [*self._peers, *keys]))

    def entry(self) -> dict[str, Any]:
        """What somebody needs to know to enter."""
        return {"port": self._port, "user": self._user, "host_key": self.public_keys()["host_key"]}

    def _client_config(self, hosts: list[str], env: Mapping[str, str]) -> str:
        """Each worker by its name, its host, and its addresses; whichever is used, its key is the worker's."""
        text = ""
        for number, host in enumerate(hosts):
            fast = env.get("DLWS_SD_worker%d_IB_IP" % number, "")
            names = dict.fromkeys(["worker-%d" % number, host, address(host), fast])
            text += "Host %s\n  HostKeyAlias worker-%d\n" % (" ".join(name for name in names if name), number)
            text += "Host worker-%d\n  HostName %s\n" % (number, host)
        own = {
            "Port": self._port,
            "User": self._user,
            "IdentityFile": self._file("client_key"),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self._file("known_hosts"),
            "GlobalKnownHostsFile": "none",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "LogLevel": "ERROR",
        }
        return text + "Host *\n" + "".join("  %s %s\n" % item for item in own.items())

    def _serve(self) -> None:
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", 0o755, exist_ok=True)  # sshd started by root insists on it
        log = self._file("sshd.log")
        with open(log, "ab") as out:
            argv = [self._programs["sshd"], "-D", "-e", "-f", self._file("sshd_config")]
            # A session of its own: a signal for the command does not end it before the command has ended.
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not _greets(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                with open(log, errors="replace") as said:
                    raise SshError("sshd on port %d: %s" % (self._port, said.read().strip()[-400:] or "no answer"))
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def _file(self, name: str) -> str:
        return os.path.join(self._folder, name)


def session(path: str) -> int:
    """What sshd runs for everybody who enters: the command that was asked for, or a shell, in the environment of the
    job's own command. Becomes it."""
    import json

    with open(path) as file:
        env: dict[str, str] = json.load(file)
    for name, value in os.environ.items():
        if name.startswith("SSH_") or name == "TERM":
            env[name] = value
    asked = env.pop("SSH_ORIGINAL_COMMAND", "")
    os.chdir(env["HOME"])
    shell = shutil.which("bash", path=env.get("PATH")) or "/bin/sh"
    os.execve(shell, [shell, "-c", asked] if asked else [shell, "-i"], env)  # noqa: S606


def _program(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", os.defpath) + os.pathsep + _SERVER_PATH)
    if found is None:
        raise SshError("there is no %s on %s; a distributed job needs it (in its image)" % (name, os.uname().nodename))
    return found


def _greets(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5.0) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
