"""Modules that others import for work we never give them. Loading those would cost a small run more than its own work.

While argparse, pathlib and msgspec are imported, stand-ins take the places of such modules. A stand-in answers what it
is asked while importing; whoever asks it for more, then or later, gets the answer of the real module.
"""

from __future__ import annotations

import importlib
import os
import sys

TYPE_CHECKING = False  # that of `typing` would import it
if TYPE_CHECKING:
    from typing import Any


class _StandIn(type(sys)):  # type: ignore[misc]
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system itself asks
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


def _later(module: str, name: str) -> Any:
    """A function that is looked up when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    return call


def _counted(one: str, many: str, number: int) -> str:
    return one if number == 1 else many


class _Never:
    """A type that no value has, and its attributes."""

    unknown = None


# What each is asked for at import time.
_STAND_INS: dict[str, dict[str, Any]] = {
    # uuid, of msgspec, asks which system this is.
    "platform": {"system": lambda: os.uname().sysname},
    # argparse asks for translations of its words, of which Python ships none.
    "gettext": {"gettext": str, "ngettext": _counted},
    # pathlib's as_uri, and texts in msgspec's schemas.
    "urllib.parse": {"quote_from_bytes": _later("urllib.parse", "quote_from_bytes")},
    "textwrap": {},
    # pathlib's paths of Windows.
    "ntpath": {},
    # msgspec knows these types by sight; nothing of ours holds one.
    "uuid": {"UUID": _Never, "SafeUUID": _Never},
    "decimal": {"Decimal": _Never},
    "msgspec._json_schema": {name: _later("msgspec._json_schema", name) for name in ("schema", "schema_components")},
    # Parts of msgspec that it loads in any case, and that only some who use it need.
    "msgspec.inspect": {},
    "msgspec.msgpack": {},
    "msgspec.toml": {},
    "msgspec.yaml": {},
}


def _halves() -> dict[str, dict[str, Any]]:
    """Modules written twice, in C and in Python, of which Python loads both and keeps the first."""
    try:
        core = importlib.import_module("_datetime")
    except ImportError:
        return {}
    return {"datetime": {name: value for name, value in vars(core).items() if not name.startswith("__")}}


def prepare() -> None:
    """Imports what every verb needs."""
    put = {}
    for name, known in {**_STAND_INS, **_halves()}.items():
        if name not in sys.modules:
            sys.modules[name] = put[name] = _StandIn(name)
            put[name].__dict__.update(known)
    # msgspec takes typing_extensions where it is installed; this Python needs it for nothing.
    hidden = "typing_extensions" not in sys.modules
    if hidden:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        for name in ("argparse", "pathlib", "msgspec"):
            importlib.import_module(name)
    finally:
        if hidden:
            del sys.modules["typing_extensions"]
        for name, module in put.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
