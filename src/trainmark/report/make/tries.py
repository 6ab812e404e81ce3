"""Attempts of a case that did not count: a retry must not hide what happened before it."""

from __future__ import annotations

from typing import Any

from trainmark.reasons import Reason
from trainmark.report.records import Try
from trainmark.spec.states import JobState
from trainmark.store.state import RunState

# What a node's own folder is called in plans, before the node has said where it is.
_WORK = "%TRAINMARK_WORK%"


def of_case(state: RunState, index: int) -> list[Try]:
    """All attempts of rounds that took more than one, but for one that succeeded or still runs."""
    return [
        Try(ref.round, attempt.number, attempt.state, readable(attempt.reason))
        for ref in state.refs(index)
        if len(state.rounds[ref].attempts) > 1
        for attempt in state.rounds[ref].attempts
        if attempt.state.ended and attempt.state is not JobState.SUCCEEDED
    ]


def readable(value: Any) -> Any:
    """A reason, or the plain values of a failure, as a reader can use them."""
    if isinstance(value, Reason):
        return Reason(value.code, readable(value.arguments))
    if isinstance(value, str):
        return value.replace(_WORK, "(work folder)")
    if isinstance(value, dict):
        return {key: readable(one) for key, one in value.items()}
    return [readable(one) for one in value] if isinstance(value, list) else value
