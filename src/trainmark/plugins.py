"""The one shape of an extension point: a literal table of built-ins, and an entry-point group for others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

from trainmark.errors import UserError, did_you_mean, one_of


class Registry:
    """Names → "module:Class", imported only when asked for."""

    def __init__(self, what: str, built_in: Mapping[str, str]) -> None:
        self.what = what
        self.group = f"trainmark.{what}s"
        self._built_in = built_in

    def knows(self, name: str) -> bool:
        """Whether there is such a one, without importing it."""
        return name in self._built_in or name in self.names()

    def check(self, name: str, place: str) -> None:
        """That there is such a one, without importing it."""
        if not self.knows(name):
            raise self._unknown(name, place)

    def get(self, name: str, place: str = "") -> Any:
        """A new instance of the named class."""
        if name in self._built_in:
            module, _, attribute = self._built_in[name].partition(":")
            return getattr(importlib.import_module(module), attribute)()
        for point in self._points():
            if point.name == name:
                kind = guarded(point.load, f"{self.what} plug-in {name}")
                made = guarded(kind, f"{self.what} plug-in {name}") if kind is not None else None
                if made is not None:
                    return made
        raise self._unknown(name, place)

    def _unknown(self, name: str, place: str) -> UserError:
        known = self.names()
        at = f"{place}: " if place else ""
        return UserError(f"{at}no {self.what} `{name}`{did_you_mean(name, known)}; there is {one_of(known)}")

    def names(self) -> list[str]:
        return sorted({*self._built_in, *(point.name for point in self._points())})

    def _points(self) -> Any:
        from importlib.metadata import entry_points

        return entry_points(group=self.group)


def guarded(make: Callable[[], Any], what: str) -> Any:
    """The result of foreign code, or None with a warning: a broken plug-in never stops the program."""
    try:
        return make()
    except Exception as error:
        sys.stderr.write(f"warning: {what} is broken and skipped: {type(error).__name__}: {error}\n")
        return None
