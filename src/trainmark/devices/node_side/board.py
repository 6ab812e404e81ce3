"""The power of a whole machine, as its board tells: `ipmitool dcmi power reading`, run again and again in a thread.

The command holds no password: ipmitool reads it from a file, or from `IPMI_PASSWORD`.
"""

from __future__ import annotations

import re
import threading
import time
from typing import Any, Dict, List, Optional

from trainmark.devices.node_side.tools import Problem, said

_WATTS = re.compile(r"Instantaneous power reading:\s+(\d+(?:\.\d+)?) Watts")
_SECONDS = 20.0


def parse(text: str) -> Optional[float]:
    """Watts of `ipmitool dcmi power reading`; None when it does not tell any."""
    found = _WATTS.search(text)
    return float(found.group(1)) if found else None


class Board:
    """`newest` gives each reading once."""

    def __init__(self, argv: List[str], every: float) -> None:
        self._argv, self._every = argv, every
        self._lock = threading.Lock()
        self._newest: Optional[Dict[str, Any]] = None
        self.problem: Problem = None
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            began = time.monotonic()
            answer = said(self._argv, _SECONDS)
            watts = None if answer.problem else parse(answer.text)
            with self._lock:
                self.problem = answer.problem
                if watts is not None:
                    # The answer is about some moment while the command ran.
                    middle = int((began + time.monotonic()) / 2 * 1e9)
                    self._newest = {"board_t": middle, "board_w": watts}
            time.sleep(max(0.0, began + self._every - time.monotonic()))

    def newest(self) -> Dict[str, Any]:
        with self._lock:
            found, self._newest = self._newest, None
        return found or {}
