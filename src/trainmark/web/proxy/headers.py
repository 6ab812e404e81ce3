"""Which headers pass between a browser and what runs beside a job. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie

Headers = list[tuple[bytes, bytes]]
# Of one connection only; what tells of proxies, which is for nobody but us to say; and what would end sessions of
# other hosts of the domain.
_OF_CONNECTION = {
    *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
    *(b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"forwarded", b"alt-svc"),
    *(b"date", b"clear-site-data"),
    *(b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-port", b"x-real-ip"),
}
_WEBSOCKET = b"sec-websocket-"
_ADDED = ((b"cross-origin-resource-policy", b"same-origin"), (b"referrer-policy", b"no-referrer"))


def to_job(given: Iterable[tuple[bytes, bytes]], cookie: str, more: Mapping[str, str]) -> Headers:
    """Without our own cookie: the job's program has nothing to do with who is here."""
    replaced = {name.encode() for name in more}
    found: Headers = []
    for name, value in given:
        if name in _OF_CONNECTION or name in replaced or name.startswith(_WEBSOCKET):
            continue
        if name == b"cookie":
            value = b"; ".join(part for part in _parts(value) if part.partition(b"=")[0] != cookie.encode())
            if not value:
                continue
        found.append((name, value))
    return found + [(name.encode(), value.encode()) for name, value in more.items()]


def to_browser(given: Iterable[tuple[bytes, bytes]], cookie: str) -> Headers:
    """Without cookies that would reach other hosts, or take the place of ours."""
    found: Headers = []
    for name, value in given:
        low = name.lower()
        if low in _OF_CONNECTION or (low == b"set-cookie" and not _may_set(value, cookie)):
            continue
        found.append((low, value))
    there = {name for name, _ in found}
    return found + [(name, value) for name, value in _ADDED if name not in there]


def _parts(value: bytes) -> list[bytes]:
    return [part.strip() for part in value.split(b";") if part.strip()]


def _may_set(value: bytes, cookie: str) -> bool:
    try:
        found = SimpleCookie(value.decode("latin-1"))
    except CookieError:
        return False
    return bool(found) and all(name != cookie and not one["domain"] for name, one in found.items())
