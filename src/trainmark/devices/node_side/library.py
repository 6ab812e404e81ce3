"""A vendor's management library by ctypes, whose calls return 0 where they answered; its tool where there is none."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence

from trainmark.devices.node_side import readings
from trainmark.devices.node_side.tools import Problem, Reading, Tool, ToolSampler, detected


class LibraryError(Exception):
    """The library is there and cannot be used."""

    def __init__(self, why: Dict[str, Any]) -> None:
        super().__init__(why["code"])
        self.problem = why


class Library:
    """The first of `names` that can be opened; OSError where there is none."""

    def __init__(self, names: Sequence[str]) -> None:
        self._library = _opened(names)

    def code(self, name: str, *arguments: Any) -> int:
        """What a function returned; AttributeError where the library does not have it."""
        return int(getattr(self._library, name)(*arguments))

    def ask(self, name: str, *arguments: Any) -> bool:
        """Whether the library answered; an old one may not have the function."""
        return hasattr(self._library, name) and self.code(name, *arguments) == 0

    def number(self, kind: Any, name: str, *arguments: Any) -> Optional[int]:
        """A number of a C type that the function writes where its last argument points."""
        found = kind()
        return int(found.value) if self.ask(name, *arguments, ctypes.byref(found)) else None

    def text(self, name: str, *arguments: Any) -> Optional[str]:
        """A text that the function writes into a buffer, whose length is its last argument."""
        buffer = ctypes.create_string_buffer(256)
        if not self.ask(name, *arguments, buffer, ctypes.c_uint(len(buffer))):
            return None
        return buffer.value.decode("utf-8", "replace") or None


def _opened(names: Sequence[str]) -> Any:
    for name in names[:-1]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return ctypes.CDLL(names[-1])


class Devices:
    """What a vendor's part makes of its library. `Open` raises OSError or AttributeError where there is no library that
    can be used, LibraryError where there is one that does not work."""

    problem: Problem

    def driver(self) -> Optional[str]:
        raise NotImplementedError

    def devices(self) -> List[readings.Device]:
        """Facts of all devices."""
        raise NotImplementedError

    def sample(self) -> List[readings.Device]:
        """Readings of all devices."""
        raise NotImplementedError


Open = Callable[[], Devices]


def detect(vendor: str, name: str, opened: Open, tool: Tool) -> Dict[str, Any]:
    """What `detect()` of a vendor returns, by the library `name`, or by the tool where that is not there."""
    try:
        library = opened()
    except LibraryError as error:
        return detected(vendor, name, Reading([], None, error.problem))
    except (OSError, AttributeError):
        return detected(vendor, tool.name, tool.read())
    return detected(vendor, name, Reading(library.devices(), library.driver(), library.problem))


class LibrarySampler:
    """Opens the library once: a sample costs no process then. Where it cannot be opened, the tool."""

    def __init__(self, opened: Open, tool: Tool) -> None:
        self.library: Optional[Devices] = None
        self._tool = ToolSampler(tool)
        try:
            self.library = opened()
        except (LibraryError, OSError, AttributeError):
            pass

    @property
    def problem(self) -> Problem:
        return self._tool.problem if self.library is None else self.library.problem

    def sample(self, rank_pids: Dict[int, int]) -> Dict[str, Any]:
        if self.library is None:
            return self._tool.sample(rank_pids)
        return {"devices": readings.sampled(self.library.sample())}
