"""Reasons as the node side writes them: `{"code": …, "arguments": {…}}`. The control side has words for each code."""

from __future__ import annotations

from typing import Any, Dict

Reason = Dict[str, Any]


def reason(which: str, **arguments: Any) -> Reason:
    """`reason("rank-exited", rank=0, code=3)`. An argument may be a reason itself, or a list of them."""
    return {"code": which, "arguments": arguments}
