"""System calls that Python has no function for, and /proc read through a directory that stays open."""

from __future__ import annotations

import os
from typing import Callable, Iterable, NamedTuple

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWNET = 0x40000000
MS_RDONLY, MS_REMOUNT = 1, 0x20
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 2, 4, 8, 0x1000, 0x4000, 0x80000
CAP_SYS_ADMIN = 21
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 65536
_SIGKILL = 9


def _libc_function(name: str) -> Callable[..., None]:
    """A function of the C library that returns -1 on failure, as one that raises OSError.

    Arguments: int, bytes, None."""

    def call(*arguments: int | bytes | None) -> None:
        import ctypes  # most verbs make no such call

        function = getattr(ctypes.CDLL(None, use_errno=True), name)
        # All integers as long: some of these functions need it, the others accept it.
        if function(*[ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]) == -1:
            number = ctypes.get_errno()
            raise OSError(number, "%s: %s" % (name, os.strerror(number)))

    return call


_prctl = _libc_function("prctl")
_mount = _libc_function("mount")
_umount2 = _libc_function("umount2")
unshare = _libc_function("unshare")
setns = _libc_function("setns")


def die_with_parent(signal: int) -> None:
    """The kernel sends this process `signal` when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal, 0, 0, 0)


def become_subreaper() -> None:
    """Orphans below this process become its children instead of init's."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def mount(source: str, target: str, kind: str, flags: int) -> None:
    _mount(source.encode(), target.encode(), kind.encode(), flags, None)


def unmount(target: str) -> None:
    """With all that is mounted below it."""
    _umount2(target.encode(), _MNT_DETACH)


def own_user_namespace(more: int, called: int | None = None) -> None:
    """In which an ordinary account may mount, until it starts a program; it stays the same account, under another
    number if it is to be `called` so. `more`: other namespaces."""
    ids = {"uid_map": os.geteuid(), "gid_map": os.getegid()}
    unshare(CLONE_NEWUSER | more)
    texts = {"setgroups": "deny"}  # first: without it no group may be named
    texts.update({name: "%d %d 1" % (own if called is None else called, own) for name, own in ids.items()})
    for name, text in texts.items():
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


def seal_descriptors() -> None:
    """Ranks do not inherit the descriptors that the launcher left open."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2:
                os.set_inheritable(int(name), False)
        except OSError:
            pass  # the descriptor of the listing itself


def try_in_child(act: Callable[[], None]) -> str | None:
    """Calls `act` in a forked child to find out whether it works: None, or why not."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException as error:  # reported to the parent
            os.write(write_end, (str(error) or type(error).__name__).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    said = os.read(read_end, 4096)
    os.close(read_end)
    _, status = os.waitpid(pid, 0)
    if said:
        return said.decode(errors="replace")
    return None if status == 0 else "the trial ended with status %d" % status


def read_all(name: str, folder: int | None = None) -> bytes:
    """A whole /proc or /sys file, `name` being relative to the open directory `folder`."""
    descriptor = os.open(name, os.O_RDONLY, dir_fd=folder)
    try:
        parts: list[bytes] = []
        while True:
            part = os.read(descriptor, _CHUNK)
            if not part:
                return b"".join(parts)
            parts.append(part)
    finally:
        os.close(descriptor)


def boot_id() -> str | None:
    """Differs after every boot, so that a pid of an earlier boot is never mistaken for a living one."""
    try:
        return read_all("/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return None


class OomKills(NamedTuple):
    """Counts that only grow; None where there is none. The host's says nothing of whose processes they were."""

    own: int | None = None
    host: int | None = None

    def risen(self, before: OomKills) -> tuple[int, int]:
        """How far both counts have risen since."""
        return _risen(before.own, self.own), _risen(before.host, self.host)


def _risen(before: int | None, after: int | None) -> int:
    return after - before if before is not None and after is not None else 0


def _count_of_kills(read: Callable[[], bytes]) -> int | None:
    try:
        found = (b"\n" + read()).partition(b"\noom_kill ")[2].split(None, 1)
    except OSError:
        return None
    return int(found[0]) if found else None


class Proc:
    """The host's /proc, kept by a descriptor: it stays the host's when another one is mounted over the path."""

    def __init__(self) -> None:
        self.fd = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)

    def read(self, name: str) -> bytes:
        return read_all(name, self.fd)

    def pids(self) -> list[int]:
        return [int(name) for name in os.listdir(self.fd) if name.isdigit()]

    def stat(self, pid: int) -> list[bytes] | None:
        """The fields of /proc/PID/stat after the command's name (state first), or None when it is gone."""
        try:
            data = self.read("%d/stat" % pid)
        except OSError:
            return None
        return data[data.rfind(b")") + 2 :].split()

    def start_ticks(self, pid: int) -> int | None:
        fields = self.stat(pid)
        return int(fields[19]) if fields else None

    def descendants(self, root: int) -> list[int]:
        """Every process below `root`, parents before children."""
        children: dict[int, list[int]] = {}
        for pid in self.pids():
            fields = self.stat(pid)
            if fields:
                children.setdefault(int(fields[1]), []).append(pid)
        found: list[int] = []
        queue = [root]
        while queue:
            for child in children.get(queue.pop(0), ()):
                found.append(child)
                queue.append(child)
        return found

    def ancestors(self, pid: int) -> set[int]:
        """`pid`, its parent, and so on up to init."""
        line = set()
        while pid > 0 and pid not in line:
            line.add(pid)
            fields = self.stat(pid)
            pid = int(fields[1]) if fields else 0
        return line

    def with_token(self, token: str) -> list[int]:
        """The processes that carry TRAINMARK_TOKEN=`token` in their environment, except our own ancestors."""
        wanted = b"TRAINMARK_TOKEN=" + token.encode()
        own = self.ancestors(os.getpid())
        found = []
        for pid in self.pids():
            if pid in own:
                continue
            try:
                if wanted in self.read("%d/environ" % pid).split(b"\0"):
                    found.append(pid)
            except OSError:
                continue  # gone, or another user's
        return found

    def destroy_tree(self, pid: int) -> None:
        """SIGKILL to a process and to all below it. It comes first, so that it does nothing about the others; a
        stopped one would not notice its end."""
        for target in [pid, *self.descendants(pid)]:
            try:
                os.kill(target, _SIGKILL)
            except OSError:
                pass  # gone already

    def destroy(self, pids: list[int]) -> None:
        """SIGKILL to these processes and to their groups, except those of this process and its ancestors. The groups
        come first: a process that forks and exits all the time is gone before its pid can be used, its group is not."""
        groups = self._groups(pids) - self._groups(self.ancestors(os.getpid())) - {0, 1}
        for target in [-group for group in groups] + pids:
            try:
                os.kill(target, _SIGKILL)
            except OSError:
                pass  # gone already

    def _groups(self, pids: Iterable[int]) -> set[int]:
        fields = [self.stat(pid) for pid in pids]
        return {int(found[2]) for found in fields if found}

    def catches(self, pid: int, signal: int) -> bool:
        """Whether the process has a handler of its own for `signal`."""
        try:
            status = self.read("%d/status" % pid)
        except OSError:
            return False
        mask = status.partition(b"SigCgt:")[2].split(None, 1)
        return bool(mask) and bool(int(mask[0], 16) >> (signal - 1) & 1)

    def capable(self, capability: int) -> bool:
        """Whether this process holds the capability in effect."""
        mask = self.read("self/status").partition(b"CapEff:")[2].split(None, 1)
        return bool(mask) and bool(int(mask[0], 16) >> capability & 1)

    def oom_kills(self) -> OomKills:
        """How many processes the kernel has killed for memory: of this process's own control group, and of the host."""
        return OomKills(_count_of_kills(self._own_memory_events), _count_of_kills(lambda: self.read("vmstat")))

    def _own_memory_events(self) -> bytes:
        """Of version 1 or 2 of control groups; the outermost one is nobody's own and has no such file."""
        for line in self.read("self/cgroup").splitlines():
            _, names, path = line.split(b":", 2)
            if b"memory" in names.split(b","):
                return read_all("/sys/fs/cgroup/memory%s/memory.oom_control" % os.fsdecode(path))
            if not names:
                return read_all("/sys/fs/cgroup%s/memory.events" % os.fsdecode(path))
        return b""
