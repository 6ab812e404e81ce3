"""Text of a report before it has a language: data, a label, a reason, or several of them. `i18n` makes words of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from trainmark.reasons import Reason


class Label(msgspec.Struct, frozen=True):
    """Words of the catalogue `i18n.labels`; arguments fill {0}, {1} … and may be text of any kind."""

    key: str
    args: tuple[Any, ...] = ()


class Joined(msgspec.Struct, frozen=True):
    """Texts one after another."""

    parts: tuple[Text, ...]
    joint: str = "; "


# A string is data: it is shown as it is in every language. None is no text; several reasons are joined.
Text = str | Label | Joined | Reason | Sequence["Reason | str"] | None


def label(key: str, *args: object) -> Label:
    return Label(key, args)


def joined(*parts: Text, joint: str = "; ") -> Text:
    """Without the empty ones."""
    shown = tuple(part for part in parts if part)
    return shown[0] if len(shown) == 1 else Joined(shown, joint)


def named(group: str, name: str) -> Text:
    """The label of a name that comes from data, or the name itself where there is none."""
    from trainmark.i18n.catalogues import LABELS

    if group == "m" and name.startswith("evaluation_"):
        return label("m.evaluation", name.removeprefix("evaluation_").replace("_", " "))
    key = f"{group}.{name}"
    return Label(key) if key in LABELS else name.replace("_", " ") if group == "m" else name
