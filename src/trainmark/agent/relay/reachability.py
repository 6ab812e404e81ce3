"""Whether hosts hear each other: one listens on a port of its own, others connect and must be told the token."""

from __future__ import annotations

import socket
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LISTEN_SECONDS = 60.0
_REACH_SECONDS = 5.0


def listen(token: str) -> int:
    """The port; it is closed again after a while, or with the relay."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.bind(("", 0))
    server.listen(128)
    server.settimeout(_LISTEN_SECONDS)
    threading.Thread(target=_serve, args=(server, token), daemon=True).start()
    return int(server.getsockname()[1])


def _serve(server: socket.socket, token: str) -> None:
    try:
        while True:
            peer, _ = server.accept()
            with peer:
                peer.sendall(token.encode())
    except OSError:
        server.close()


def reach(targets: list[dict[str, Any]], token: str) -> dict[str, str]:
    """Why each of the targets that cannot be reached cannot; all are tried at once."""
    failed: dict[str, str] = {}
    tries = [threading.Thread(target=_try, args=(target, token, failed)) for target in targets]
    for each in tries:
        each.start()
    for each in tries:
        each.join()
    return failed


def _try(target: dict[str, Any], token: str, failed: dict[str, str]) -> None:
    try:
        with socket.create_connection((target["host"], target["port"]), _REACH_SECONDS) as peer:
            peer.settimeout(_REACH_SECONDS)
            said = peer.recv(256)
        if said != token.encode():
            failed[target["host"]] = "somebody else answers there"
    except OSError as error:
        failed[target["host"]] = str(error)
