"""Names that no DNS knows: a proxy on loopback that connects them by their addresses.

Both official clients speak through it as through any proxy. What they say stays encrypted from end to end, with the
name of the service checked as usual.
"""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import threading
from collections.abc import Mapping

_CONNECT_SECONDS = 30.0
_CHUNK = 1 << 16


class Tunnel:
    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.addresses = dict(addresses)
        threading.Thread(target=self._server.serve_forever, args=(0.2,), daemon=True).start()

    @property
    def host(self) -> str:
        return str(self._server.server_address[0])

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    addresses: dict[str, str]


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        words = self.rfile.readline(4096).split()
        while self.rfile.readline(65536).strip():
            pass
        if len(words) != 3 or words[0] != b"CONNECT":
            self.wfile.write(b"HTTP/1.1 405 Only CONNECT\r\n\r\n")
            return
        name, _, port = words[1].decode().rpartition(":")
        try:
            there = socket.create_connection((self.server.addresses.get(name, name), int(port)), _CONNECT_SECONDS)
        except (OSError, ValueError):
            self.wfile.write(b"HTTP/1.1 502 Not reachable\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        with there, contextlib.suppress(OSError):
            _pass_on(self.connection, there)


def _pass_on(here: socket.socket, there: socket.socket) -> None:
    """Until one side has closed."""
    other = {here: there, there: here}
    while True:
        ready, _, _ = select.select([here, there], [], [])
        for one in ready:
            data = one.recv(_CHUNK)
            if not data:
                return
            other[one].sendall(data)
