"""What the server tells of itself, to stderr: lines for people or, for programs that gather logs, an object a line."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

import msgspec

_LINE = "%(asctime)s %(levelname)s %(message)s"
_REQUESTS = "trainmark.web.requests"


class JsonLines(logging.Formatter):
    """`{"time", "level", "logger", "message", …}`: whatever a message holds, it is one line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        told |= getattr(record, "fields", {})
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(told).decode()


class Lines(logging.Formatter):
    """The same for people; what came from outside cannot begin a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        fields = getattr(record, "fields", None)
        if fields:
            record = logging.makeLogRecord({**vars(record), "msg": " ".join(f"{k}={v}" for k, v in fields.items())})
        message = "".join(char if char.isprintable() else "?" for char in record.getMessage())
        record = logging.makeLogRecord({**vars(record), "msg": message, "args": None})
        return super().format(record)


def begin(*, as_json: bool) -> None:
    """`as_json`: also a line for each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Lines(_LINE))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger(_REQUESTS).setLevel(logging.DEBUG if as_json else logging.INFO)
