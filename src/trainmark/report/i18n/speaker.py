"""Labels and reasons in one language: `say` for plain text, `Speaker` for text that a page can switch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from trainmark.reasons import TEXT, Reason
from trainmark.report.i18n.labels import LABELS
from trainmark.report.i18n.templates import REASONS, Field, numbered

LANGUAGES = ("en", "zh")

# What records and their JSON hold: a reason, several of them, or text of an older run or of another tool.
Sayable = Reason | Mapping[str, Any] | str | Sequence["Reason | Mapping[str, Any] | str"] | None


class Label(msgspec.Struct, frozen=True):
    """Text that can change its language in the page. Without a key: text from data, which cannot."""

    text: str
    # Of LABELS, or "reason." and the code of a reason.
    key: str = ""
    # An argument that has words of its own is (English, Chinese).
    args: tuple[str | tuple[str, str], ...] = ()
    # Labels one after another, in place of a key; `text` is all of them.
    parts: tuple[Label, ...] = ()


def say(value: Sayable, language: str = "en") -> str:
    """A reason as text, several of them joined, text as it is."""
    return Speaker(language).reason(value).text


class Speaker:
    """Gives labels in one language."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._column = LANGUAGES.index(language)

    def __call__(self, key: str, *args: object) -> Label:
        shown = tuple(str(arg) for arg in args)
        return Label(_fill(LABELS[key][self._column], shown), key, shown)

    def text(self, key: str, *args: object) -> str:
        return self(key, *args).text

    def pair(self, english: str, chinese: str) -> Label:
        """Text that is known in both languages, without a key of its own."""
        return Label((english, chinese)[self._column], "pair", ((english, chinese),))

    def named(self, group: str, name: str) -> Label:
        """The label of a name that comes from data, or the name itself where there is none."""
        key = f"{group}.{name}"
        if group == "m" and name.startswith("evaluation_"):
            return self("m.evaluation", name.removeprefix("evaluation_").replace("_", " "))
        return self(key) if key in LABELS else Label(name.replace("_", " ") if group == "m" else name)

    def reason(self, value: Sayable) -> Label:
        """What a record holds as a reason: one, several, or text, which is shown as it is in every language."""
        given = _given(value)
        if isinstance(given, str):
            return Label(given)
        if isinstance(given, Reason):
            return self._reason(given)
        return self.joined([self.reason(one) for one in given])

    def joined(self, labels: Sequence[Label], by: str = "join.list") -> Label:
        """Labels one after another. `by`: the label that stands between two of them."""
        if len(labels) == 1:
            return labels[0]
        parts = [part for label in labels for part in (self(by), label)][1:]
        return Label("".join(part.text for part in parts), parts=tuple(parts))

    def _reason(self, given: Reason) -> Label:
        if given.code == TEXT or given.code not in REASONS:
            return Label(_reason_text(given, self._column))
        shown = []
        for field in numbered(given.code).fields:
            english, chinese = (_argument(given, field, column) for column in range(len(LANGUAGES)))
            shown.append(english if english == chinese else (english, chinese))
        own = tuple(one if isinstance(one, str) else one[self._column] for one in shown)
        return Label(_fill(numbered(given.code).texts[self._column], own), "reason." + given.code, tuple(shown))


def _given(value: Any) -> Reason | str | list[Any]:
    """Whatever stands in a record or in the JSON of one."""
    if value is None:
        return ""
    if isinstance(value, dict) and isinstance(value.get("code"), str):
        arguments = value.get("arguments")
        return Reason(value["code"], arguments if isinstance(arguments, dict) else {})
    if isinstance(value, (list, tuple)):
        return list(value)
    return value if isinstance(value, Reason) else str(value)


def _reason_text(given: Reason, column: int) -> str:
    if given.code == TEXT:
        return str(given.arguments.get("text", ""))
    if given.code not in REASONS:
        # Of a newer version, or of a plug-in without words.
        told = ", ".join(f"{name}={_value(value, '', column)}" for name, value in given.arguments.items())
        return f"{given.code} ({told})" if told else given.code
    template = numbered(given.code)
    return _fill(template.texts[column], tuple(_argument(given, field, column) for field in template.fields))


def _argument(given: Reason, field: Field, column: int) -> str:
    if field.name not in given.arguments:
        return "?"
    return _value(given.arguments[field.name], field.spec, column)


def _value(value: Any, spec: str, column: int) -> str:
    known = _given(value)
    if isinstance(known, Reason):
        return _reason_text(known, column)
    if isinstance(known, list):
        # Reasons are sentences; anything else is listed.
        sentences = any(isinstance(_given(one), Reason) for one in known)
        joint = LABELS["join.list"][column] if sentences else ", "
        return joint.join(_value(one, spec, column) for one in known)
    if spec:
        try:
            return format(value, spec)
        except (TypeError, ValueError):
            return known
    return known


def _fill(template: str, args: tuple[str, ...]) -> str:
    if not args:
        return template
    # Not str.format: what is filled in is data, and may hold braces itself.
    return re.sub(r"\{(\d+)\}", lambda found: args[int(found[1])], template)
