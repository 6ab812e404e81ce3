"""The command line that reaches a host by ssh, the first program run there, and failures in plain sentences.

Pure. A host is entered by ONE command with ONE argument, quoted here and nowhere else.
"""

from __future__ import annotations

import pwd
import shlex

import msgspec

from trainmark.agent.relay.frames import GREETING

# Seconds between the signs of life that ssh itself exchanges, and how many may be missed.
_ALIVE, _MISSED = 5, 2

# Runs before anything of trainmark is there: takes the node side if it is missing, then becomes the relay. Old Pythons
# must get as far as saying that they are too old. What it runs is checked by its hash, and the folder must be
# this account's own; files in one that others could write to are not used any more.
_BOOTSTRAP = """\
import hashlib, os, sys
work, name, size, digest = os.path.expanduser(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
say = lambda word: os.write(1, ("\\n" + {greeting!r} + word + "\\n").encode())
if sys.version_info < (3, 7):
    say("old " + sys.version.split()[0])
    sys.exit(0)
path = os.path.join(work, "node", name)
def whole(file):
    if not os.path.isfile(file):
        return False
    with open(file, "rb") as content:
        return hashlib.sha256(content.read()).hexdigest() == digest
try:
    os.makedirs(work, 0o700, exist_ok=True)
    found = os.stat(work)
    if found.st_uid not in (0, os.geteuid()):
        raise OSError(work + " belongs to another account; name another `work_dir` in the site")
    if found.st_mode & 0o022:
        os.chmod(work, 0o700)
        if os.path.isdir(os.path.join(work, "trees")):
            os.rename(os.path.join(work, "trees"), os.path.join(work, "trees.%d.old" % os.getpid()))
    if not whole(path):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        say("need")
        draft = "%s.%s.%d.part" % (path, os.uname()[1], os.getpid())
        with open(draft, "wb") as out:
            while size:
                data = os.read(0, min(size, 65536))
                if not data:
                    os.unlink(draft)
                    sys.exit(0)
                out.write(data)
                size -= len(data)
        if not whole(draft):
            os.unlink(draft)
            raise OSError("the node side arrived damaged")
        os.rename(draft, path)
    os.execv(sys.executable, [sys.executable, "-I", "-S", path, "relay", os.path.abspath(work)])
except OSError as error:
    say("cannot " + str(error))
"""


class SshTarget(msgspec.Struct, frozen=True):
    """How a host is reached; part of each node's plan, so that a later controller can reach it again."""

    host: str
    user: str | None = None
    port: int | None = None
    config: str | None = None
    work_dir: str = "~/.trainmark"
    node_python: str = "python3"
    connect_seconds: float = 20.0
    lost_seconds: float = 120.0
    # The host is this machine: entered by `setpriv` as this account, without ssh.
    become: str | None = None


def command_line(reach: SshTarget, node_zip: str, size: int, sha256: str) -> list[str]:
    """The ssh that becomes the relay of this host. The user's own configuration applies, with checked host keys."""
    source = _BOOTSTRAP.format(greeting=GREETING.decode())
    # On one line: not every login shell takes a line break inside quotes.
    remote = [reach.node_python, "-I", "-S", "-c", f"exec({source!r})", reach.work_dir, node_zip, str(size)]
    remote += [sha256]
    if reach.become:
        return [*_as_account(reach.become), *remote]
    return [*_entry(reach, {"ClearAllForwardings": "yes"}), "--", reach.host, shlex.join(remote)]


def _as_account(account: str) -> list[str]:
    """Nothing of the caller is left: no group, no capability, no variable."""
    found = pwd.getpwnam(account)
    ids = [f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--init-groups"]
    return ["setpriv", *ids, "--inh-caps=-all", "--reset-env", "--"]


def tunnel_line(reach: SshTarget, there: int, here: int) -> list[str]:
    """The ssh through which programs on the host reach a port of this machine; both ends are on loopback only. It ends
    when its input does, so that it never outlives the program that started it."""
    argv = _entry(reach, {"ExitOnForwardFailure": "yes"})
    return [*argv, "-R", f"127.0.0.1:{there}:127.0.0.1:{here}", "--", reach.host, "cat"]


def forward_line(reach: SshTarget, there: int, here: int) -> list[str]:
    """The other way round: through it this machine reaches a port of the host."""
    argv = _entry(reach, {"ExitOnForwardFailure": "yes"})
    return [*argv, "-L", f"127.0.0.1:{here}:127.0.0.1:{there}", "--", reach.host, "cat"]


def _entry(reach: SshTarget, more: dict[str, str]) -> list[str]:
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": str(max(1, round(reach.connect_seconds))),
        "ServerAliveInterval": str(_ALIVE),
        "ServerAliveCountMax": str(_MISSED),
        # One connection carries everything, and nobody else's end may take it along.
        "ControlMaster": "no",
        "ControlPath": "none",
        "ForwardAgent": "no",
        "EscapeChar": "none",
        "LogLevel": "ERROR",
        **more,
    }
    argv = ["ssh", "-T"]
    if reach.config:
        argv += ["-F", reach.config]
    for name, value in options.items():
        argv += ["-o", f"{name}={value}"]
    if reach.user:
        argv += ["-l", reach.user]
    if reach.port:
        argv += ["-p", str(reach.port)]
    return argv


_SENTENCES = (
    ("permission denied", "the host refuses the key or the user", "check `ssh.user` and which keys ssh offers"),
    (
        "remote host identification has changed",
        "its host key is not the one that is known: the host was installed anew, or somebody stands between",
        "compare the new key with the host's own (`ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` there), then "
        "`ssh-keygen -R {host}` and add it again",
    ),
    (
        "host key is known for",
        "its host key is not known here",
        "log in once by hand and compare the key (`ssh {host}`), or put it into known_hosts",
    ),
    ("host key verification failed", "its host key could not be verified", "check known_hosts for {host}"),
    ("no matching host key", "it offers no host key of a known kind", "update known_hosts"),
    ("could not resolve", "its name cannot be resolved", "check `hosts`, or the ssh configuration"),
    ("name or service not known", "its name cannot be resolved", "check `hosts`, or the ssh configuration"),
    ("connection refused", "no sshd listens there", "check `ssh.port`, and that sshd runs"),
    ("timed out", "it does not answer", "check that it is up and can be reached from here"),
    ("no route to host", "it does not answer", "check that it is up and can be reached from here"),
    ("network is unreachable", "it does not answer", "check that it is up and can be reached from here"),
    ("no such file", "a file ssh needs is not there", "check `ssh.config`"),
)


def explain(code: int | None, said: str, node_python: str, host: str) -> str:
    """Why a host could not be entered, with the cure and ssh's own last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    low = said.lower()
    if code == 127:
        return f"there is no {node_python} there; set `node_python` in the site ({last})"
    for sign, sentence, cure in _SENTENCES:
        if sign in low:
            return f"{sentence}: {cure.format(host=host)} ({last})"
    if code is None:
        return f"ssh did not get through in time{f' ({last})' if last else ''}"
    return f"ssh ended with code {code}{f': {last}' if last else ''}"
