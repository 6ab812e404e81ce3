"""Style sheets and scripts, from the package. Their address holds a hash of all of them, so browsers may keep them."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import msgspec
from litestar import Response, get

from trainmark.report.charts import palette
from trainmark.report.render import html
from trainmark.web.api.access import Access, rules
from trainmark.web.service.errors import NotFound

_FOLDER = Path(__file__).resolve().parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_KEPT = {"cache-control": "public, max-age=31536000, immutable"}


class Asset(msgspec.Struct, frozen=True):
    media: str
    content: bytes


@cache
def all_of_them() -> dict[str, Asset]:
    """Name → content. `report.css` and `report.js` are those of the reports: both have one design."""
    found = {
        file.relative_to(_FOLDER).as_posix(): Asset(f"{_TYPES[file.suffix]}; charset=utf-8", file.read_bytes())
        for file in sorted(_FOLDER.rglob("*"))
        if file.suffix in _TYPES
    }
    style, script = palette.css() + html.file("page.css"), html.file("page.js")
    found["report.css"] = Asset("text/css; charset=utf-8", style.encode())
    found["report.js"] = Asset("text/javascript; charset=utf-8", script.encode())
    return found


@cache
def version() -> str:
    whole = hashlib.sha256()
    for name, one in sorted(all_of_them().items()):
        whole.update(name.encode() + b"\0" + one.content)
    return whole.hexdigest()[:16]


@get("/assets/{version:str}/{path:path}", **rules(Access.PUBLIC))
def asset(version: str, path: str) -> Response[bytes]:  # noqa: ARG001  it only makes the address a new one
    """A style sheet or a script."""
    found = all_of_them().get(path.strip("/"))
    if found is None:
        raise NotFound("no such file")
    return Response(found.content, media_type=found.media, headers=_KEPT)


ROUTES = [asset]
