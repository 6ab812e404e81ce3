"""What the command line says: all text goes through here, so that no name or log can move a reader's cursor."""

from __future__ import annotations

import sys
from typing import Any

from trainmark.i18n import words
from trainmark.report.render import escape

_language = words.LANGUAGES[0]


def speak(language: str) -> None:
    """From now on, of this process: a command line has one reader."""
    global _language
    _language = language


def out(text: str) -> None:
    """To standard output, as it is but for control characters."""
    try:
        sys.stdout.write(escape.clean(text))
    except OSError as error:
        error.filename = "standard output"
        raise


def tell(text: str) -> None:
    """Sentences of our own, to standard output in the reader's language."""
    out(words.lines(text, _language))


def err(text: str) -> None:
    sys.stderr.write(escape.clean(words.lines(text, _language)))


def line(text: object) -> None:
    """At once, also where somebody follows through a pipe."""
    tell(f"{text}\n")
    sys.stdout.flush()


def cell(text: object) -> str:
    """A heading or a value of a table, in the reader's language."""
    return words.cell(str(text), _language)


def said(text: str) -> str:
    """Sentences that are shown elsewhere, in the reader's language."""
    return words.lines(text, _language)


def json(record: Any, indent: int | None = None) -> None:
    """A record that holds no reasons; those are shown by `report.show`. `indent` None: one line."""
    import msgspec

    found = msgspec.json.encode(record)
    out(escape.json((found if indent is None else msgspec.json.format(found, indent=indent)).decode()) + "\n")
    sys.stdout.flush()
