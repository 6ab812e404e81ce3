"""Strings of markup that no data can break out of."""

from __future__ import annotations

import html
import json

from trainmark.report.i18n.labels import LABELS
from trainmark.report.i18n.speaker import Label
from trainmark.report.i18n.templates import REASONS, numbered
from trainmark.report.phrases import PHRASES
from trainmark.report.plain import clean

# All words a page can say, in the order of their numbers.
ALL = LABELS | {f"reason.{code}": numbered(code).texts for code in REASONS} | PHRASES
_NUMBERS = {key: number for number, key in enumerate(ALL)}


def escape(text: str) -> str:
    """For use as text and inside attributes in double quotes."""
    return html.escape(clean(text), quote=True)


def attributes(label: Label | str) -> str:
    """What lets the page change the language of an element."""
    if isinstance(label, str) or not label.key:
        return ""
    # A word is named by its number: a page of many cases holds tens of thousands of them.
    key = f" data-t={_NUMBERS[label.key]}"
    if not label.args:
        return key
    # JSON is full of double quotes: between single ones it stays short.
    args = json.dumps(label.args, ensure_ascii=False, separators=(",", ":"))
    return f"""{key} data-a='{html.escape(clean(args), quote=False).replace("'", "&#39;")}'"""


def content(label: Label | str) -> str:
    if isinstance(label, Label) and label.parts:
        return "".join(words(part) for part in label.parts)
    return escape(label if isinstance(label, str) else label.text)


def element(tag: str, label: Label | str, more: str = "") -> str:
    """`more` is attributes, already safe, with a leading space."""
    return f"<{tag}{more}{attributes(label)}>{content(label)}</{tag}>"


def words(label: Label | str) -> str:
    """Text within text."""
    return element("span", label) if isinstance(label, Label) and label.key else content(label)


def heard(label: Label) -> str:
    """Attributes that name an element to those who cannot see it; the page changes their language too."""
    return attributes(label).replace("data-t", "data-label", 1) + f' aria-label="{content(label)}"'
