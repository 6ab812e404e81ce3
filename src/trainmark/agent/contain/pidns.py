"""Rung one: a pid namespace with a keeper as its first process. The kernel itself ends everything with the keeper."""

from __future__ import annotations

import os
import signal

from trainmark.agent import linux
from trainmark.agent.contain.choose import Containment, RungError
from trainmark.agent.wake import forget_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainmark.agent.linux import Proc

# Mounts below /proc that change nothing a rank reads; any other one (lxcfs, masked files) would be hidden.
_HARMLESS = (b"autofs", b"binfmt_misc")


def _mount_proc() -> None:
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def _leave() -> None:
    """New namespaces for what this process forks (pids) and for itself (mounts, none of which reach the host)."""
    linux.unshare(linux.CLONE_NEWPID | linux.CLONE_NEWNS)
    linux.mount("none", "/", "none", linux.MS_REC | linux.MS_SLAVE)


def _covered(mountinfo: bytes) -> bytes | None:
    """A mount point below /proc that a fresh /proc would hide from the ranks."""
    for line in mountinfo.splitlines():
        fields = line.split()
        if fields[4].startswith(b"/proc/") and fields[fields.index(b"-") + 1] not in _HARMLESS:
            return fields[4]
    return None


class PidNamespace(Containment):
    """Ranks are forked by the agent into the namespace; they see a /proc of their own."""

    name = "pidns"
    guarded = False

    def __init__(self, proc: Proc) -> None:
        self._keeper = 0
        self._gone = False
        self._lifeline = -1
        if not proc.capable(linux.CAP_SYS_ADMIN):
            raise RungError("needs CAP_SYS_ADMIN")
        covered = _covered(proc.read("self/mountinfo"))
        if covered:
            raise RungError("%s is a mount that the ranks would no longer see" % covered.decode(errors="replace"))

    def open(self) -> None:
        home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.setns(home, linux.CLONE_NEWPID)  # nothing changes; it tells whether there is a way back
            try:
                self._enter()
            except (OSError, RungError):
                # Without its first process no other can be forked there. Mounts of one's own are no hindrance.
                linux.setns(home, linux.CLONE_NEWPID)
                raise
        except OSError as error:
            raise RungError(str(error)) from error
        finally:
            os.close(home)

    def _enter(self) -> None:
        _leave()
        ready, tell = os.pipe()
        life, self._lifeline = os.pipe()
        self._keeper = os.fork()
        if self._keeper == 0:
            _keep(tell, life, (ready, self._lifeline))
        os.close(tell)
        os.close(life)
        said_bytes = os.read(ready, 4096)
        os.close(ready)
        if said_bytes != b"ready":
            self.close()
            os.waitpid(self._keeper, 0)
            raise RungError("the keeper did not start: %s" % said_bytes.decode(errors="replace"))

    def reaped(self, pid: int) -> None:
        if pid == self._keeper:
            self._gone = True

    def empty(self, childless: bool) -> bool:
        # The kernel lets the keeper be reaped only after every other process of the namespace.
        return self._gone or childless

    def kill(self) -> None:
        try:
            os.kill(self._keeper, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def count(self) -> int:
        # The /proc at the path is the namespace's own; its first process is the keeper.
        return sum(name.isdigit() for name in os.listdir("/proc")) - 1

    def close(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _keep(tell: int, life: int, others: tuple[int, ...]) -> None:
    """The keeper: mounts /proc, says so, and lives as long as the agent. Never returns."""
    try:
        forget_signals()
        linux.die_with_parent(signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):  # ignoring SIGCHLD has the kernel reap orphans
            signal.signal(number, signal.SIG_IGN)
        for descriptor in others:
            os.close(descriptor)
        os.setsid()
        _mount_proc()
        os.write(tell, b"ready")
        os.close(tell)
        os.read(life, 1)  # returns when the agent is gone, however early that was
    except BaseException as error:  # the agent must hear of it, whatever it was
        os.write(tell, str(error).encode())
    finally:
        os._exit(0)
