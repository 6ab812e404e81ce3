"""Patterns over lines of output: named ones, or a regular expression of the user's own with named groups."""

from __future__ import annotations

import re

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of

# Group → what it tells. All are numbers of one step.
GROUPS = {
    "step": "the step's number",
    "samples": "samples trained in a step, by all processes together",
    "seconds": "seconds a step took",
    "rate": "samples per second",
    "loss": "the loss",
}
LONGEST = 2000


class Pattern(msgspec.Struct, frozen=True):
    """One kind of line. `scale` turns a group's unit into ours: {"seconds": 0.001} for milliseconds."""

    regex: str
    scale: dict[str, float] = {}
    # The number that the program gives its first step.
    first_step: int = 1


NAMED: dict[str, Pattern] = {
    # key=value or key: value in any order is too free for one expression; this is the order most programs print.
    "plain": Pattern(r"(?i)\bstep[ =:]+(?P<step>\d+)\b(?:.*?\bloss[ =:]+(?P<loss>[-+.\deE]+|nan|inf))?"),
}


def find_pattern(text: str, place: str) -> Pattern:
    """A named pattern, or the text itself as a regular expression."""
    if text in NAMED:
        return NAMED[text]
    if text.replace("-", "").replace("_", "").isalnum():
        raise UserError(
            f"{place}: no pattern `{text}`{did_you_mean(text, NAMED)}; there is {one_of(NAMED)}, or give a regular "
            f"expression with named groups of {one_of(GROUPS)}"
        )
    if len(text) > LONGEST:
        raise UserError(f"{place}: the expression has {len(text)} characters, allowed are {LONGEST}")
    try:
        groups = re.compile(text).groupindex
    except re.error as error:
        raise UserError(f"{place}: `{text}` is no regular expression: {error}") from None
    strange = [name for name in groups if name not in GROUPS]
    if strange:
        raise UserError(f"{place}: group `{strange[0]}` means nothing; allowed are {one_of(GROUPS)}")
    if not groups:
        raise UserError(
            f"{place}: `{text}` has no named group; write e.g. (?P<step>\\d+), allowed are {one_of(GROUPS)}"
        )
    return Pattern(text)
