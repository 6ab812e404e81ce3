"""JSON and signals straight from the C cores of the standard library, and calls of the C library.

`json` and `signal` pull in `re`, `enum` and more, which cost more processor time than all else a short round
does on a node. Where an interpreter has no such core, or a changed one, the full module serves.
"""

from __future__ import annotations

import os

try:
    import _signal as signals  # type: ignore[import-not-found]
except ImportError:
    import signal as signals

__all__ = ["c_function", "dumps", "loads", "signal_name", "signals"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class _Rules:
    """What the C scanner asks of a decoder: the defaults of `json.JSONDecoder`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    array_hook = None
    parse_float = float
    parse_int = int
    parse_constant = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}.__getitem__
    memo: dict[str, str] = {}  # noqa: RUF012


def _refuse(value: object) -> Any:
    raise TypeError("%s is not JSON" % type(value).__name__)


def _cores() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    """The C scanner and encoder wrapped as `loads` and `dumps`."""
    from _json import encode_basestring_ascii, make_encoder, make_scanner

    scan = make_scanner(_Rules)  # type: ignore[arg-type]
    encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)

    def load(text: str) -> Any:
        text = text.strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except (StopIteration, SystemError):  # the core alone cannot say what is wrong
            end = -1
        return value if end == len(text) else _full()[0](text)

    def dump(value: Any) -> str:
        return "".join(encode(value, 0))

    if load(dump(["é", {"a": [1.5, None, True]}])) != ["é", {"a": [1.5, None, True]}]:
        raise ImportError("the C core of json behaves in a new way")
    return load, dump


def _full() -> tuple[Callable[[str], Any], Callable[[Any], str]]:
    import json

    def dump(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)

    return json.loads, dump


try:
    _load, _dump = _cores()
except (ImportError, AttributeError, TypeError):
    _load, _dump = _full()


def loads(data: str | bytes) -> Any:
    """JSON text (or UTF-8 bytes) to a value; ValueError when it is not JSON."""
    return _load(data.decode("utf-8") if isinstance(data, bytes) else data)


def dumps(value: Any) -> str:
    """A value to JSON on one line; non-finite numbers are refused (ValueError)."""
    return _dump(value)


def c_function(name: str) -> Callable[..., None]:
    """A function of the C library that gives -1 on failure, as one that raises OSError. Arguments: int, bytes, None."""

    def call(*arguments: int | bytes | None) -> None:
        # Only where it is needed: not every verb makes system calls of its own.
        try:
            function, word, error_number = _bare(name)
        except (ImportError, AttributeError, TypeError):
            function, word, error_number = _dressed(name)
        # A whole register each: some of these functions take long numbers, and none minds.
        if function(*[word(given) if isinstance(given, int) else given for given in arguments]) == -1:
            number = error_number()
            raise OSError(number, "%s: %s" % (name, os.strerror(number)))

    return call


def _bare(name: str) -> tuple[Callable[..., int], Callable[[int], Any], Callable[[], int]]:
    """A function of the C library by the core of `ctypes`, a tenth of whose cost it has."""
    import _ctypes as core

    integer = type("integer", (core._SimpleCData,), {"_type_": "i"})
    word = type("word", (core._SimpleCData,), {"_type_": "L"})
    flags = core.FUNCFLAG_CDECL | core.FUNCFLAG_USE_ERRNO
    kind = type("kind", (core.CFuncPtr,), {"_flags_": flags, "_restype_": integer})
    library = core.dlopen(None, 0)  # type: ignore[arg-type]  # the process itself
    return kind(core.dlsym(library, name)), word, core.get_errno


def _dressed(name: str) -> tuple[Callable[..., int], Callable[[int], Any], Callable[[], int]]:
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), name), ctypes.c_ulong, ctypes.get_errno


def signal_name(number: int) -> str:
    """'SIGKILL' for 9; 'signal 40' where there is no name."""
    for name in dir(signals):
        if name.startswith("SIG") and not name.startswith("SIG_") and getattr(signals, name) == number:
            return name
    return "signal %d" % number
