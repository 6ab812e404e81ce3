"""Elements of a page. Text that differs between languages is numbered, so that the page can change its language."""

from __future__ import annotations

import json

from trainmark.i18n.speaker import LANGUAGES, say
from trainmark.i18n.texts import Text
from trainmark.report.render import escape


class Markup:
    """Makes the elements of one page in one language, and collects all text that has another one."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._column = LANGUAGES.index(language)
        self._numbers: dict[tuple[str, ...], int] = {}

    def text(self, value: Text) -> str:
        return value if isinstance(value, str) else say(value, self.language)

    def element(self, tag: str, value: Text, more: str = "") -> str:
        """`more` is attributes, already safe, with a leading space."""
        key, content = self._said(value)
        return f"<{tag}{more}{key}>{content}</{tag}>"

    def inline(self, value: Text) -> str:
        """Text within text."""
        key, content = self._said(value)
        return f"<span{key}>{content}</span>" if key else content

    def named(self, value: Text) -> str:
        """Attributes that name an element to those who cannot see it; the page changes their language too."""
        key, content = self._said(value)
        return key.replace("data-t", "data-label", 1) + f' aria-label="{content}"'

    def all_text(self) -> str:
        """Everything that was numbered, for the page's script, as JSON for a script element."""
        texts = [[escape.clean(text) for text in said] for said in self._numbers]
        # Within a script element only the end tag means anything.
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")

    def _said(self, value: Text) -> tuple[str, str]:
        """The attribute with its number, and the text."""
        if isinstance(value, str):
            return "", escape.html(value)
        said = tuple(say(value, language) for language in LANGUAGES)
        shown = escape.html(said[self._column])
        if len(set(said)) == 1:
            return "", shown
        number = self._numbers.setdefault(said, len(self._numbers))
        return f" data-t={number}", shown
