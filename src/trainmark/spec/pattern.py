"""Patterns over lines of output: named ones, or a regular expression of the user's own with named groups."""

from __future__ import annotations

import re

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of

# What an expression may name. Of one step: `samples`, `seconds`, `ms`. Per second: `rate`, `steps_per_second`.
GROUPS = ("step", "epoch", "samples", "seconds", "ms", "rate", "steps_per_second", "loss", "stamp")
LONGEST = 2000


class Pattern(msgspec.Struct, frozen=True):
    """One kind of line."""

    regex: str
    # All of these texts stand in the line.
    needs: tuple[str, ...] = ()
    unit: str = "samples"
    # Steps that a line stands for, where the lines before do not tell.
    every: int = 1
    # Steps count from 0 in the log.
    zero: bool = False
    # `seconds` and `ms` are of all steps since the last such line, not of one.
    whole: bool = False
    # `rate` is of one device, not of all.
    per_device: bool = False
    # A line that comes before and holds `step` and `epoch`; with `product` the step is their product.
    context: str = ""
    product: bool = False


NAMED: dict[str, Pattern] = {
    "plain": Pattern(r"(?i)\bstep[ =:]+(?P<step>\d+)\b(?:.*?\bloss[ =:]+(?P<loss>[-+.\deE]+|nan|inf))?"),
}


def find_pattern(text: str, place: str) -> Pattern:
    """A named pattern, or the text itself as a regular expression."""
    if text in NAMED:
        return NAMED[text]
    if "(?P<" not in text:
        raise UserError(
            f"{place}: no pattern `{text}`{did_you_mean(text, NAMED)}; there is {one_of(NAMED)}, "
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
    return Pattern(text)
