"""Containment by a pid namespace: when its first process ends, the kernel kills all others in it."""

from __future__ import annotations

import os
import signal

from trainmark.agent import linux
from trainmark.agent.contain.choose import Containment, ContainmentError
from trainmark.agent.linux import Proc
from trainmark.agent.reasons import reason
from trainmark.agent.wakeup import forget_signals

# Mounts below /proc that change nothing a rank reads; any other one (lxcfs, masked files) would be hidden.
_HARMLESS = (b"autofs", b"binfmt_misc")


def _mount_proc() -> None:
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def _unshare() -> None:
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
        self._first = 0
        self._gone = False
        self._lifeline = -1
        if not proc.capable(linux.CAP_SYS_ADMIN):
            raise ContainmentError(reason("needs-capability", name="CAP_SYS_ADMIN"))
        covered = _covered(proc.read("self/mountinfo"))
        if covered:
            where = covered.decode(errors="replace")
            raise ContainmentError(reason("mount-hidden", path=where))

    def open(self) -> None:
        home = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            linux.setns(home, linux.CLONE_NEWPID)  # changes nothing; fails where there is no way back
            try:
                self._enter()
            except (OSError, ContainmentError):
                # Without its first process no other can be forked there. Mounts of one's own are no why_not_ready.
                linux.setns(home, linux.CLONE_NEWPID)
                raise
        except OSError as error:
            raise ContainmentError(reason("text", text=str(error))) from error
        finally:
            os.close(home)

    def _enter(self) -> None:
        _unshare()
        ready, ready_end = os.pipe()
        life, self._lifeline = os.pipe()
        self._first = os.fork()
        if self._first == 0:
            _run_first_process(ready_end, life, (ready, self._lifeline))
        os.close(ready_end)
        os.close(life)
        answer = os.read(ready, 4096)
        os.close(ready)
        if answer != b"ready":
            self.close()
            os.waitpid(self._first, 0)
            raise ContainmentError(reason("namespace-not-started", error=answer.decode(errors="replace")))

    def reaped(self, pid: int) -> None:
        if pid == self._first:
            self._gone = True

    def empty(self, childless: bool) -> bool:
        # The first process can be reaped only after every other process of the namespace.
        return self._gone or childless

    def kill(self) -> None:
        try:
            os.kill(self._first, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def count(self) -> int:
        # /proc is the namespace's own here; its first process is not counted.
        return sum(name.isdigit() for name in os.listdir("/proc")) - 1

    def close(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _run_first_process(ready_end: int, life: int, others: tuple[int, ...]) -> None:
    """The first process of the namespace: mounts /proc and lives as long as the agent. Never returns."""
    try:
        forget_signals()
        linux.die_with_parent(signal.SIGKILL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):  # ignoring SIGCHLD has the kernel reap orphans
            signal.signal(number, signal.SIG_IGN)
        for descriptor in others:
            os.close(descriptor)
        os.setsid()
        _mount_proc()
        os.write(ready_end, b"ready")
        os.close(ready_end)
        os.read(life, 1)  # returns when the agent has ended, however early
    except BaseException as error:  # reported to the agent
        os.write(ready_end, str(error).encode())
    finally:
        os._exit(0)
