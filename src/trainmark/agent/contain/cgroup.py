"""Containment by a version 2 cgroup of the attempt's own, ended by `cgroup.kill`."""

from __future__ import annotations

import os

from trainmark.agent import linux
from trainmark.agent.contain.choose import Containment, ContainmentError
from trainmark.agent.linux import Proc
from trainmark.agent.reasons import Reason, reason


def prefix(token: str) -> str:
    return "trainmark-" + token


def _plain(path: bytes) -> str:
    """mountinfo writes blanks in octal."""
    for code, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        path = path.replace(code, char)
    return os.fsdecode(path)


def mount_point(mountinfo: bytes) -> tuple[str, str] | None:
    """Where the version 2 hierarchy is mounted, and which part of it."""
    for line in mountinfo.splitlines():
        fields = line.split()
        if fields[fields.index(b"-") + 1] == b"cgroup2":
            return _plain(fields[4]), _plain(fields[3])
    return None


def own_folder(cgroups: bytes, mountinfo: bytes) -> str | None:
    """The folder of this process's version 2 cgroup, or None where there is none to be seen."""
    mounted = mount_point(mountinfo)
    for line in cgroups.splitlines():
        if mounted and line.startswith(b"0::"):
            point, root = mounted
            path = os.fsdecode(line[3:])
            relative = os.path.relpath(path, root)
            if relative.startswith(".."):
                return None
            return os.path.normpath(os.path.join(point, relative))
    return None


def end(folder: str) -> None:
    """Kills every process of the cgroup and of those below it."""
    with open(os.path.join(folder, "cgroup.kill"), "wb", buffering=0) as file:
        file.write(b"1")


def populated(folder: str) -> bool:
    return b"populated 1" in linux.read_all(os.path.join(folder, "cgroup.events"))


def remove(folder: str) -> None:
    """Removes the cgroup, after those that a rank made below it."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            remove(path)
    os.rmdir(folder)


def members(folder: str) -> int:
    count = len(linux.read_all(os.path.join(folder, "cgroup.procs")).split())
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            count += members(path)
    return count


class Cgroup(Containment):
    """Ranks enter the cgroup before their program starts; a child cannot leave it by forking or new sessions."""

    name = "cgroup"

    def __init__(self, token: str, proc: Proc) -> None:
        own = own_folder(proc.read("self/cgroup"), proc.read("self/mountinfo"))
        if own is None:
            raise ContainmentError(reason("no-cgroup-v2"))
        self.folder = os.path.join(own, prefix(token))

    def open(self) -> None:
        try:
            os.mkdir(self.folder)
        except OSError as error:
            raise ContainmentError(reason("cgroup-not-made", path=self.folder, error=error.strerror)) from error
        why = self._why_unusable()
        if why:
            os.rmdir(self.folder)
            raise ContainmentError(why)

    def _why_unusable(self) -> Reason | None:
        kill = os.path.join(self.folder, "cgroup.kill")
        if not os.path.exists(kill):
            return reason("no-cgroup-kill")
        if not os.access(kill, os.W_OK):
            return reason("cgroup-kill-not-writable")
        error = linux.try_in_child(self.enter)
        return reason("text", text=error) if error else None

    def enter(self) -> None:
        with open(os.path.join(self.folder, "cgroup.procs"), "wb", buffering=0) as file:
            file.write(b"0")

    def empty(self, childless: bool) -> bool:  # noqa: ARG002
        try:
            return not populated(self.folder)
        except FileNotFoundError:
            return True  # a cgroup with a process in it cannot be removed

    def kill(self) -> None:
        end(self.folder)

    def count(self) -> int:
        return members(self.folder)

    def close(self) -> None:
        try:
            remove(self.folder)
        except OSError:
            pass  # an empty cgroup holds nothing; a later sweep can remove it
