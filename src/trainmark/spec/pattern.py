"""The pattern of a command's output: a row of the table by its name, or a regular expression of the user's own."""

from __future__ import annotations

import re

from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.spec.log_lines import BY_NAME, Pattern

# What an expression may name. Of one step: `samples`, `seconds`, `ms`. Per second: `rate`, `steps_per_second`.
GROUPS = ("step", "epoch", "samples", "seconds", "ms", "rate", "steps_per_second", "loss", "stamp")
LONGEST = 2000


def find_pattern(text: str, place: str) -> Pattern:
    """A line that comes live has a time of its own: unlike in a log, an expression need not tell one."""
    if text in BY_NAME:
        return BY_NAME[text]
    if "(?P<" not in text:
        raise UserError(
            f"{place}: no pattern `{text}`{did_you_mean(text, BY_NAME)}; there is {one_of(BY_NAME)}, "
            "or give a regular expression with named groups such as `step (?P<step>\\d+) .* (?P<rate>[\\d.]+) img/s`"
        )
    if len(text) > LONGEST:
        raise UserError(f"{place}: the expression has {len(text)} characters, allowed are {LONGEST}")
    try:
        groups = re.compile(text).groupindex
    except re.error as error:
        raise UserError(f"{place}: `{text}` is no regular expression: {error}") from None
    strange = [name for name in groups if name not in GROUPS]
    if strange:
        raise UserError(
            f"{place}: group `{strange[0]}`{did_you_mean(strange[0], GROUPS)}; allowed are {one_of(GROUPS)}"
        )
    return Pattern("own", "given as a regular expression", (), text, "seconds")
