"""What the command line says: all text goes through here, so that no name or log can move a reader's cursor."""

from __future__ import annotations

import sys
from typing import Any

from trainmark.report.render import escape


def out(text: str) -> None:
    """To standard output, as it is but for control characters."""
    sys.stdout.write(escape.clean(text))


def err(text: str) -> None:
    sys.stderr.write(escape.clean(text))


def line(text: object) -> None:
    """At once, also where somebody follows through a pipe."""
    out(f"{text}\n")
    sys.stdout.flush()


def json(record: Any, indent: int | None = None) -> None:
    """A record that holds no reasons; those are shown by `report.show`. `indent` None: one line."""
    import msgspec

    found = msgspec.json.encode(record)
    line(escape.json((found if indent is None else msgspec.json.format(found, indent=indent)).decode()))
