"""The program around a TensorBoard on stored logs: a file system with Python and the logs, all read-only; no network,
no rights, processes of its own. It ends with its input, and everything in it with it.

Arguments: the number of the socket that TensorBoard serves, a folder to build in, over which only these processes see
anything, and the folder of the logs: its top, which is the server's, and the names below it, which may be a job's.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import sysconfig
from pathlib import Path

from trainmark.agent import linux
from trainmark.agent.workers import tensorboard_on_socket
from trainmark.web.service.files import folder_below

_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ssl", "/etc/mime.types", "/dev/null", "/dev/urandom", "/dev/zero")
_LOGS = "/logs"
_NOBODY = 65534
_RELATIME, _NOATIME = 1 << 21, 1024
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108


def main(served: int, place: str, top: str, parts: list[str]) -> int:
    namespaces = linux.CLONE_NEWNS | linux.CLONE_NEWPID | linux.CLONE_NEWNET | linux.CLONE_NEWIPC
    try:
        # Its files are this account's own; as nobody it has no capabilities once a program is started, even for root.
        linux.own_user_namespace(namespaces, called=_NOBODY)
    except OSError as error:
        sys.stderr.write(f"the logs of a job that has ended cannot be shown safely on this machine: {error}\n")
        return 1
    child = os.fork()
    if child == 0:
        try:
            linux.die_with_parent(signal.SIGKILL)
            _enter(place, Path(top), parts)
            program = str(Path(tensorboard_on_socket.__file__))
            os.execve(sys.executable, [sys.executable, "-I", program, str(served), _LOGS], _ENVIRONMENT)  # noqa: S606
        except BaseException as error:
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
            os._exit(1)
    os.close(served)
    return _wait(child)


def _wait(child: int) -> int:
    """Until it ends, or whoever started this does."""
    handle = os.pidfd_open(child)
    ready, _, _ = select.select([handle, 0], [], [])
    if handle not in ready:
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _enter(place: str, top: Path, parts: list[str]) -> None:
    """A file system of its own."""
    linux.mount("none", "/", "none", linux.MS_REC | linux.MS_SLAVE)
    linux.mount("tmpfs", place, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV)
    os.mkdir(place + _ENVIRONMENT["HOME"], 0o700)
    with folder_below(top, parts) as logs:  # no link of the job's is followed
        _show(f"/proc/self/fd/{logs}", place + _LOGS)
    for path in _wanted():
        _show(path, place + path)
    os.chroot(place)
    os.chdir("/")


def _wanted() -> list[str]:
    """What Python needs, each once: nothing that lies below another."""
    paths = {*_SYSTEM, sys.prefix, sys.base_prefix, sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")}
    paths |= {str(Path(sys.executable).resolve().parent), str(Path(tensorboard_on_socket.__file__).parent)}
    there = sorted({path for path in paths if os.path.exists(path)})
    return [path for path in there if not any(path.startswith(other + "/") for other in there)]


def _show(source: str, target: str) -> None:
    """Read-only. What its mount forbids stays forbidden: an account's own namespace may not allow it."""
    os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
    if not source.startswith("/proc/") and os.path.islink(source):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(os.stat(source).st_mode):
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644))
    linux.mount(source, target, "none", linux.MS_BIND)
    flags = os.statvfs(target).f_flag
    kept = linux.MS_NOSUID
    kept |= linux.MS_NOEXEC if flags & os.ST_NOEXEC else 0
    kept |= linux.MS_NODEV if flags & os.ST_NODEV else 0
    kept |= _NOATIME if flags & os.ST_NOATIME else 0
    kept |= _RELATIME if flags & os.ST_RELATIME else 0
    linux.mount("none", target, "none", linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | kept)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
