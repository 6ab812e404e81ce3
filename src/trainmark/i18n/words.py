"""Words of the command line by their English text: help (`words_help.json`) and errors (`words_errors.json`).

English stands in the code, where it is read with what it is about; a catalogue gives the same in Chinese. An error is
looked up by its template: `no run `{0}`` in the catalogue is any text of that form, and what stood for {0} is filled in
again, translated itself if it can be. What has no translation is shown in English as a whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).resolve().parent
_FIELD = re.compile(r"\{(\d+)\}")
# A part of a message is looked up as the message is, but not for ever.
_DEEPEST = 4
# An English sentence, beside names and values: a message that would hold one stays English as a whole.
_PROSE = re.compile(r"(?<![\w/.-])[a-z]{2,} [a-z]{2,}(?![\w/-])")
_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")


def chosen(environment: Mapping[str, str] | None = None) -> str:
    """The language of the user's locale: TRAINMARK_LANG, or what POSIX says."""
    found = os.environ if environment is None else environment
    for name in ("TRAINMARK_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if found.get(name):
            return "zh" if found[name].lower().startswith("zh") else "en"
    return "en"


@cache
def catalogue(name: str) -> dict[str, str]:
    """English → Chinese."""
    found: dict[str, str] = json.loads((_FOLDER / f"words_{name}.json").read_text("utf-8"))
    return found


def phrase(text: str, language: str) -> str:
    """A text of the help."""
    return text if language == "en" else catalogue("help").get(text, text)


def error(text: str, language: str) -> str:
    """A message, or a part of one."""
    return text if language == "en" else _translated(text, 0) or text


def _translated(text: str, depth: int) -> str | None:
    if depth > _DEEPEST or not text.strip():
        return None
    for pattern, order, template in _patterns():
        found = pattern.fullmatch(text)
        if found:
            parts = {
                number: _translated(part, depth + 1) or part for number, part in zip(order, found.groups(), strict=True)
            }
            if any(_PROSE.search(_QUOTED.sub("", part)) for part in parts.values()):
                continue
            return _FIELD.sub(lambda field: parts.get(field[1], ""), template)  # noqa: B023
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], list[str], str]]:
    """The most exact template first: the one with the most words of its own."""
    made = []
    for english, chinese in catalogue("errors").items():
        pieces = _FIELD.split(english)
        text = "".join(re.escape(piece) if place % 2 == 0 else "(.*?)" for place, piece in enumerate(pieces))
        made.append((sum(map(len, pieces[::2])), re.compile(text, re.S), pieces[1::2], chinese))
    return [one[1:] for one in sorted(made, key=lambda one: -one[0])]
