"""Ports of the round: chosen and held, so that no other program gets them before the ranks listen."""

from __future__ import annotations

import errno
import os
import socket

from trainmark.agent.linux import Proc
from trainmark.agent.reasons import Reason, ReasonedError, reason

_LOWEST = 20000
_TRIES = 64
_TIME_WAIT, _LISTEN = b"06", b"0A"


class PortTaken(ReasonedError):
    """A port that the plan names cannot be used. The text is for `doctor` and for errors of a site."""

    kind = "port"

    def __init__(self, text: str, why: Reason) -> None:
        super().__init__(why)
        self.text = text


class Ports:
    """Sockets that are bound but never listen. Linux lets a rank bind the same port as long as both sides allow
    reuse (the stores of the frameworks do) and gives it to no program that does not ask for it by number."""

    def __init__(self, proc: Proc) -> None:
        self._proc = proc
        self._held: list[socket.socket] = []
        self.numbers: list[int] = []
        self._unserved: list[int] = []  # held ports on which no rank was seen to listen yet

    def hold(self, wanted: list[int]) -> None:
        for port in wanted:
            held = self._fixed(port) if port else self._free()
            self._held.append(held)
            self.numbers.append(held.getsockname()[1])
            self._unserved.append(self.numbers[-1])

    def foreign_listener(self) -> tuple[int, int] | None:
        """Port and account of another user's program that listens on a held port: reuse lets anybody do that who is
        faster than the rank. None also once every port has a listener of our own."""
        waiting = []
        for port in self._unserved:
            listening = [int(row[7]) for row in self._lines(port) if row[3] == _LISTEN]
            foreign = [uid for uid in listening if uid != os.geteuid()]
            if foreign:
                return port, foreign[0]
            if not listening:
                waiting.append(port)
        self._unserved = waiting
        return None

    def release(self) -> None:
        while self._held:
            self._held.pop().close()

    def _free(self) -> socket.socket:
        """Below the range of outgoing connections where possible: those take their ports at any time."""
        low = self._ephemeral_low()
        if low > _LOWEST:
            for _ in range(_TRIES):
                port = _LOWEST + int.from_bytes(os.urandom(4), "big") % (low - _LOWEST)
                try:
                    return bind(port)
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
        return bind(0)

    def _ephemeral_low(self) -> int:
        try:
            return int(self._proc.read("sys/net/ipv4/ip_local_port_range").split()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def _fixed(self, port: int) -> socket.socket:
        try:
            return bind(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                text = "port %d cannot be used: %s" % (port, error.strerror)
                raise PortTaken(text, reason("port-unusable", port=port, error=error.strerror)) from error
        # Closed connections of the round before keep a port for a minute; they do not prevent a bind with reuse.
        if self._states(port) == {_TIME_WAIT}:
            return bind(port, reuse_first=True)
        owner = self._owner(port)
        if owner is None:
            raise PortTaken("port %d is taken" % port, reason("port-taken", port=port))
        text = "port %d is taken by pid %d (%s)" % (port, owner[0], owner[1])
        raise PortTaken(text, reason("port-taken-by", port=port, pid=owner[0], command=owner[1]))

    def _lines(self, port: int) -> list[list[bytes]]:
        """The rows of the kernel's connection tables whose local port it is."""
        ending = b":%04X" % port
        rows = []
        for name in ("net/tcp", "net/tcp6"):
            try:
                table = self._proc.read(name)
            except OSError:
                continue
            rows += [line.split() for line in table.splitlines()[1:] if line.split()[1].endswith(ending)]
        return rows

    def _states(self, port: int) -> set[bytes]:
        return {row[3] for row in self._lines(port)}

    def _owner(self, port: int) -> tuple[int, str] | None:
        """Pid and command of the process that has the port, where /proc shows it."""
        links = {"socket:[%s]" % row[9].decode() for row in self._lines(port)}
        for pid in self._proc.pids() if links else ():
            try:
                folder = "%d/fd" % pid
                descriptor = os.open(folder, os.O_RDONLY, dir_fd=self._proc.fd)
            except OSError:
                continue
            try:
                if any(_link(name, descriptor) in links for name in os.listdir(descriptor)):
                    return pid, self._command(pid)
            finally:
                os.close(descriptor)
        return None

    def _command(self, pid: int) -> str:
        try:
            words = self._proc.read("%d/cmdline" % pid).replace(b"\0", b" ").strip()
        except OSError:
            return "?"
        return words.decode(errors="replace")[:120]


def _link(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def bind(port: int, reuse_first: bool = False) -> socket.socket:
    """A socket bound on every address, of both families where there are two."""
    try:
        return _bind_family(socket.AF_INET6, "::", port, reuse_first)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT):
            raise
    return _bind_family(socket.AF_INET, "0.0.0.0", port, reuse_first)  # noqa: S104


def _bind_family(family: int, address: str, port: int, reuse_first: bool) -> socket.socket:
    """Bound without reuse, so that two agents never get the same port; only then is reuse allowed, so that the
    rank can have it."""
    held = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if reuse_first:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((address, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except BaseException:
        held.close()
        raise
    return held
