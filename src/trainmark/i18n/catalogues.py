"""The catalogues of words, read from their files: key or code → (English, Chinese)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Formatter
from typing import NamedTuple

import msgspec

Catalogue = dict[str, tuple[str, str]]

_FOLDER = Path(__file__).resolve().parent


def read(kind: str) -> dict[str, Catalogue]:
    """All catalogues of a kind, `labels` or `reasons`, by the name of their file."""
    files = sorted(_FOLDER.glob(f"{kind}*.json"))
    return {file.stem: msgspec.json.decode(file.read_bytes(), type=Catalogue) for file in files}


def _merged(kind: str) -> Catalogue:
    return {key: words for catalogue in read(kind).values() for key, words in catalogue.items()}


LABELS = _merged("labels")
REASONS = _merged("reasons")


class Field(NamedTuple):
    """`{seconds:.1f}`"""

    name: str
    spec: str


@cache
def parts(template: str) -> list[tuple[str, Field | None]]:
    """Literal text, each piece followed by a field (None: the template ends there)."""
    return [
        (literal, None if name is None else Field(name, spec or ""))
        for literal, name, spec, _ in Formatter().parse(template)
    ]
