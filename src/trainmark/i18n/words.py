"""Words of the command line by their English text: help (`words_help.json`), errors (`words_errors*.json`), what else
it says (`words_lines.json`), and the headings and values of its tables (`words_cells.json`).

English stands in the code, where it is read with what it is about; a catalogue gives the same in Chinese. An error is
looked up by its template: `no run `{0}`` in the catalogue is any text of that form, and what stood for {0} is filled in
again, translated itself if it can be. A message may hold a reason, which is known by its own template. What has no
translation is shown in English as a whole, and the words of other programs in quotation marks.
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
_NAMED = re.compile(r"\{[^{}]*\}")
# An English sentence, beside names and values: a message that would hold one stays English as a whole.
_PROSE = re.compile(r"(?<![\w/.-])[a-z]{2,} [a-z]{2,}(?![\w/-])")
_LETTERS = re.compile(r"[^A-Za-z]")
_OWN_WORDS = 8  # letters
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
    """English → Chinese, of all files of that name: errors have one for each group of rooms."""
    found: dict[str, str] = {}
    for file in sorted(_FOLDER.glob(f"words_{name}*.json")):
        found.update(json.loads(file.read_text("utf-8")))
    return found


def phrase(text: str, language: str) -> str:
    """A text of the help."""
    return text if language == "en" else catalogue("help").get(text, text)


def error(text: str, language: str) -> str:
    """A message, or a part of one; examples may follow it, a line each."""
    if language == "en":
        return text
    first, *rest = text.split("\n")
    return "\n".join([_translated(first) or _quoting(first) or first, *map(_line, rest)])


def lines(text: str, language: str) -> str:
    """What the command line says, line by line. A line that is none of its sentences stays as it is."""
    if language == "en":
        return text
    return "".join(_line(one) for one in text.splitlines(keepends=True))


def _line(text: str) -> str:
    body = text.strip()
    # What is Chinese already was made of parts.
    found = _translated(body) or _quoting(body) if not _is_chinese(body) and _is_worded(body) else None
    return text if found is None else text.replace(body, found)


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def _is_worded(text: str) -> bool:
    """By a template that has words, not only signs."""
    return any(
        _filled_in(english, text) is not None
        for english, _ in _templates()
        if any(_LETTERS.sub("", literal) for literal, _ in english)
    )


def cell(text: str, language: str) -> str:
    """A heading or a value of a table: a word that is listed, or a sentence."""
    if language == "en":
        return text
    return catalogue("cells").get(text) or (_line(text) if " " in text else text)


@cache
def _translated(text: str) -> str | None:
    """A part of a message is looked up as the message is; it is shorter, so this ends."""
    if not text.strip():
        return None
    for english, chinese in _templates():
        found = _filled_in(english, text)
        if found is not None:
            said = _said(chinese, {name: _translated(part) or part for name, part in found.items()})
            if not _is_prose(said):
                return said
    return None


def _quoting(text: str) -> str | None:
    """With the words of another program, which have no translation, in quotation marks."""
    for english, chinese in _templates():
        # Words of our own, not a mere "and" between two others.
        words = sum(len(_LETTERS.sub("", literal)) for literal, _ in english)
        found = _filled_in(english, text) if words >= _OWN_WORDS else None
        if found is not None:
            parts = {
                name: _translated(part) or (f"“{part}”" if _is_prose(part) else part) for name, part in found.items()
            }
            return _said(chinese, parts).replace("`“", "`").replace("”`", "`")
    return None


def _is_prose(text: str) -> bool:
    return _PROSE.search(_QUOTED.sub("", text)) is not None


# A template: literal text, each piece followed by the name of what is filled in there (None: the template ends).
_Template = list[tuple[str, str | None]]


def _said(template: _Template, parts: Mapping[str, str]) -> str:
    return "".join(literal + parts.get(name or "", "") for literal, name in template)


def _filled_in(template: _Template, text: str) -> dict[str, str] | None:
    """What stands for each field, as short as can be, the last as long as it must be; None: another text."""
    found: dict[str, str] = {}
    place, field = 0, None
    for literal, name in template:
        if field is None:
            at = 0 if text.startswith(literal) else -1
        elif name is None:
            at = len(text) - len(literal) if text.endswith(literal) else -1
        else:
            at = text.find(literal, place)
        if at < place:
            return None
        if field is not None:
            found[field] = text[place:at]
        place, field = at + len(literal), name
    return found if place == len(text) or field is None else {**found, field: text[place:]}


@cache
def _templates() -> list[tuple[_Template, _Template]]:
    """The most exact first: the one with the most words of its own."""
    from trainmark.i18n.catalogues import REASONS, parts

    def of_reason(template: str) -> _Template:
        return _ended([(literal, field.name if field else None) for literal, field in parts(template)])

    texts = {**catalogue("errors"), **catalogue("lines")}
    known = [(_of_error(english), _of_error(chinese)) for english, chinese in texts.items()]
    known += [
        (of_reason(english), of_reason(chinese))
        for english, chinese in REASONS.values()
        # One of fields and signs alone would be any text.
        if _LETTERS.sub("", _NAMED.sub("", english))
    ]
    return sorted(known, key=lambda one: -sum(len(literal) for literal, _ in one[0]))


def _of_error(template: str) -> _Template:
    found = _FIELD.split(template)
    return list(zip(found[::2], [*found[1::2], None], strict=True))


def _ended(template: _Template) -> _Template:
    return template if template and template[-1][1] is None else [*template, ("", None)]
