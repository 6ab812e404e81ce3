"""The power of a whole machine, as its board tells: by `ipmitool dcmi power reading`, or over Redfish. Asked again and
again in a thread.

The command holds no password: ipmitool reads it from a file, or from `IPMI_PASSWORD`; Redfish likewise.
"""

from __future__ import annotations

import json
import re
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from trainmark.devices.node_side.tools import Problem, said

_WATTS = re.compile(r"Instantaneous power reading:\s+(\d+(?:\.\d+)?) Watts")
_SECONDS = 20.0


def parse(text: str) -> Optional[float]:
    """Watts of `ipmitool dcmi power reading`; None when it does not tell any."""
    found = _WATTS.search(text)
    return float(found.group(1)) if found else None


def reader(words: List[str]) -> Callable[[], Tuple[Optional[float], Problem]]:
    """`redfish` and its settings as JSON, else a command of ipmitool."""
    if words[0] == "redfish":
        # Few boards are read so, and HTTP is much to import for every agent and every run.
        from trainmark.devices.node_side.redfish import Redfish

        return Redfish(json.loads(words[1])).read

    def ask() -> Tuple[Optional[float], Problem]:
        answer = said(words, _SECONDS)
        return (None if answer.problem else parse(answer.text)), answer.problem

    return ask


class Board:
    """`newest` gives each reading once."""

    def __init__(self, words: List[str], every: float) -> None:
        self._read, self._every = reader(words), every
        self._lock = threading.Lock()
        self._newest: Optional[Dict[str, Any]] = None
        self.problem: Problem = None
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            began = time.monotonic()
            watts, problem = self._read()
            with self._lock:
                self.problem = problem
                if watts is not None:
                    # The answer is about some moment while it was asked.
                    middle = int((began + time.monotonic()) / 2 * 1e9)
                    self._newest = {"board_t": middle, "board_w": watts}
            time.sleep(max(0.0, began + self._every - time.monotonic()))

    def newest(self) -> Dict[str, Any]:
        with self._lock:
            found, self._newest = self._newest, None
        return found or {}
