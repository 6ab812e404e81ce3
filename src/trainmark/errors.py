"""What can go wrong because of the outside world, and the exit code each gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

OK = 0
CASE_FAILED = 1
BAD_INPUT = 2
SITE_UNUSABLE = 3
THRESHOLD_CROSSED = 4
NOTHING_COMPARED = 5
STOPPED = 130


class UserError(Exception):
    """Bad input: nothing was started. The message names the place, what was found, and the cure."""

    exit_code = BAD_INPUT


class SiteError(UserError):
    """The machine or cluster cannot be used as asked. `findings`: what was found wrong with its hosts, if they were
    looked at (`trainmark.launch.protocol.Finding`)."""

    exit_code = SITE_UNUSABLE

    def __init__(self, message: str, findings: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.findings = findings


def did_you_mean(found: str, known: object) -> str:
    """' (did you mean `x`?)' when something close to `found` is known, else ''."""
    import difflib

    names = [str(name) for name in known]  # type: ignore[attr-defined]
    close = difflib.get_close_matches(found, names, n=1, cutoff=0.6)
    return f" (did you mean `{close[0]}`?)" if close else ""


def one_of(names: object) -> str:
    """A readable list of allowed names."""
    return ", ".join(f"`{name}`" for name in names)  # type: ignore[attr-defined]
