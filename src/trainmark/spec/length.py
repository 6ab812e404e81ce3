"""How long a round trains: a preset that runs by time goes on after its own steps until there is enough to measure.

The record goes to the training programs as it is; `trainmark_length.py` among the workloads' modules carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from trainmark.errors import UserError
from trainmark.spec.rules import FixedWindow
from trainmark.spec.shape import STEPS
from trainmark.spec.workload import Deadlines, Workload

# What a window must hold, after the warm-up, for a figure without flags.
STEPS_MEASURED = 100
SECONDS_MEASURED = 15.0
# Of a process, import to last step: a machine that needs longer ends early, its figure is flagged. In a suite with a
# time for the whole run, a round has this share of it.
MOST_SECONDS = 180.0
SHARE_OF_RUN = 0.15
# What else a round does when training is over: evaluation, notes, leaving.
AFTERWARDS_SECONDS = 600.0
# The share of a round's deadline that training may use.
_OF_DEADLINE = 0.75


class Length(msgspec.Struct, frozen=True):
    """After the warm-up at least `steps` and `seconds`; the process lives for about `most` seconds before it ends its
    training. `whole`: the steps of the preset are made first, which its loss band judges."""

    steps: int = STEPS_MEASURED
    seconds: float = SECONDS_MEASURED
    most: float = MOST_SECONDS
    whole: bool = True


def check_seconds(seconds: float | None, place: str) -> None:
    if seconds is not None and not 0 < seconds <= 86400:
        raise UserError(f"{place}: found {seconds:g}, allowed is a number of seconds above 0, up to 86400")


def settle(
    workload: Workload,
    preset: str,
    changed: Iterable[str],
    seconds: float | None,
    window: FixedWindow | None,
    deadlines: Deadlines,
    within: float | None = None,
) -> Length | None:
    """None: the case makes the steps it says, and no more.

    `changed`: parameters that somebody gave a value; whoever says how many steps there are gets these. `seconds`: what
    was asked for, in place of what the preset does. `within`: the time of the whole run, if it has one.
    """
    if not workload.by_time or window is not None:
        return None
    if seconds is None:
        if preset not in workload.by_time or any(name in STEPS for name in changed):
            return None
        most = MOST_SECONDS if within is None else SHARE_OF_RUN * within
        return Length(most=min(most, _OF_DEADLINE * deadlines.total))
    whole = preset in workload.by_time
    return Length(seconds=seconds, most=max(MOST_SECONDS, 2 * seconds + SECONDS_MEASURED), whole=whole)


def fitting(deadlines: Deadlines, length: Length | None, given: Mapping[str, float], place: str) -> Deadlines:
    """Deadlines that such a round can keep. `given`: what the suite or the case says itself, which stands."""
    if length is None or length.most <= _OF_DEADLINE * deadlines.total:
        return deadlines
    if "total" in given:
        raise UserError(
            f"{place}: deadlines.total: {given['total']:g} s is too short for {length.seconds:g} s of training, which "
            f"may take {length.most:g} s with its start; allow {length.most / _OF_DEADLINE:.0f} s or leave it out"
        )
    return msgspec.structs.replace(deadlines, total=deadlines.start + length.most + AFTERWARDS_SECONDS)
