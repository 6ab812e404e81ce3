"""Filling templates: who reads, in which language and theme, and what every page shows around its own."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from litestar import MediaType, Request, Response
from markupsafe import Markup

from trainmark import __version__
from trainmark.i18n.catalogues import LABELS
from trainmark.i18n.speaker import LANGUAGES, say
from trainmark.i18n.texts import label
from trainmark.web.pages import assets
from trainmark.web.server import Server
from trainmark.web.service import jobs
from trainmark.web.service.records import Principal

LANGUAGE_COOKIE, THEME_COOKIE = "trainmark-language", "trainmark-theme"
THEMES = ("auto", "light", "dark")
_JS = "web.js."
# Runs that one page compares.
MOST_COMPARED = 8
_TONES = {"SUCCEEDED": "good", "RUNNING": "run", "PENDING": "calm", "CANCELLED": "calm", "SKIPPED": "calm"}
_WARNING = ("PREEMPTED", "INVALID")


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(when=when, span=span, size=size, tone=tone, quoted=lambda text: quote(str(text), safe=""))
    made.globals.update(now=time.time, version=__version__, most_compared=MOST_COMPARED)
    return made


def language_of(request: Request[Any, Any, Any]) -> str:
    """What the reader chose, else the first that their browser asks for."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    return "zh" if request.headers.get("accept-language", "").lower().startswith("zh") else "en"


def theme_of(request: Request[Any, Any, Any]) -> str:
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else "auto"


def base_of(server: Server) -> str:
    """What stands before every path of this server where a proxy gives it a folder; mostly nothing."""
    return server.settings.root_path.rstrip("/")


def asked_for(request: Request[Any, Any, Any], server: Server) -> str:
    """The path and query of a request below `base_of`. The scope's path has the base in it or not, as the proxy sends
    it; `request.url` would put it before once more."""
    base, path = base_of(server), request.scope["path"]
    if base and (path == base or path.startswith(f"{base}/")):
        path = path.removeprefix(base) or "/"
    query = request.scope["query_string"].decode("latin-1")
    return f"{quote(path)}?{query}" if query else quote(path)


def render(
    request: Request[Any, Any, Any], server: Server, template: str, status: int = 200, **values: Any
) -> Response[str]:
    """A page, or a part of one, in the reader's language."""
    language = language_of(request)
    base = base_of(server)
    reader = request.scope.get("user")
    known = {
        "t": lambda key, *arguments: say(label(f"web.{key}", *arguments), language),
        "say": lambda value: say(value, language),
        "url": lambda path: base + path,
        "asset": lambda name: f"{base}/assets/{assets.version()}/{name}",
        "words": script_words(language),
        "language": language,
        "theme": theme_of(request),
        "base": base,
        "here": asked_for(request, server),
        "reader": reader if isinstance(reader, Principal) else None,
        "most_priority": jobs.most_priority(reader) if isinstance(reader, Principal) else 0,
        "has_word": lambda key: f"web.{key}" in LABELS,
    }
    text = _environment().get_template(template).render({**known, **values})
    return Response(text, media_type=MediaType.HTML, status_code=status)


@cache
def script_words(language: str) -> Markup:
    """What scripts say, as JSON for a script element, within which only the end tag means anything."""
    column = LANGUAGES.index(language)
    found = {key.removeprefix(_JS): said[column] for key, said in LABELS.items() if key.startswith(_JS)}
    return as_json(found)


def as_json(value: Any) -> Markup:
    """Data for a script, inside a script element that is no script."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704  no tag can begin in it


def safe(text: str) -> Markup:
    """What a renderer of ours made and escaped."""
    return Markup(text)  # noqa: S704


def when(at: float | None) -> Markup:
    """A moment; scripts make it the reader's own time."""
    if at is None:
        return Markup("–")
    moment = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), moment.strftime("%Y-%m-%d %H:%M UTC"))


def span(seconds: float | None) -> str:
    """`1:02:03`"""
    if seconds is None:
        return "–"
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def tone(state: str) -> str:
    return _TONES.get(state, "warn" if state in _WARNING else "bad")
