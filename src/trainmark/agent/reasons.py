"""Reasons as the node side writes them: `{"code": …, "arguments": {…}}`. The control side has words for each code."""

from __future__ import annotations

from typing import Any

from trainmark.devices.node_side.reasons import Reason, reason

__all__ = ["Reason", "ReasonedError", "log_text", "reason"]


def log_text(value: Any) -> str:
    """A reason for agent.log: `rank-exited rank=0 code=3`."""
    if not isinstance(value, dict):
        return str(value)
    arguments = ["%s=%s" % (name, _nested(given)) for name, given in value["arguments"].items()]
    return " ".join([value["code"], *arguments])


def _nested(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_nested, value))
    return "(%s)" % log_text(value) if isinstance(value, dict) else str(value)


class ReasonedError(Exception):
    """An error that ends the round with a reason; `kind` says what failed."""

    kind = "agent"

    def __init__(self, why: Reason) -> None:
        super().__init__(log_text(why))
        self.reason = why
