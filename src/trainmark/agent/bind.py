"""A port, bound on every address. `socket` costs a multiple of its C core, which has all that is needed here."""

from __future__ import annotations

import errno

try:
    import _socket as sockets
except ImportError:
    import socket as sockets  # type: ignore[no-redef]


def bind(port: int, reuse_first: bool = False) -> sockets.socket:
    """Bound on every address of both families where there are two."""
    try:
        return _bind_family(sockets.AF_INET6, "::", port, reuse_first)
    except OSError as error:
        if error.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENOPROTOOPT):
            raise
    return _bind_family(sockets.AF_INET, "0.0.0.0", port, reuse_first)  # noqa: S104


def _bind_family(family: int, address: str, port: int, reuse_first: bool) -> sockets.socket:
    """Taken without reuse, so that two agents never get the same one; only then is reuse allowed, so that the
    rank can have it."""
    held = sockets.socket(family, sockets.SOCK_STREAM)
    try:
        if family == sockets.AF_INET6:
            held.setsockopt(sockets.IPPROTO_IPV6, sockets.IPV6_V6ONLY, 0)
        if reuse_first:
            held.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
        held.bind((address, port))
        held.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
    except BaseException:
        held.close()
        raise
    return held
