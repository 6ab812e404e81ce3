"""How long a training goes on, so that there is enough to measure. Plain arithmetic: whoever asks brings the clock.

A recipe has its own number of steps, which its loss band judges. A measurement needs more: some steps and some seconds
after the warm-up, whatever the speed of the machine. So training looks at the clock at a few steps, and each look says
how many steps come before the next one. Ranks must make the same number of steps: one of them looks, all obey.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

# Steps that no machine does without: the first ones compile, allocate and fill caches. A slow machine, whose first two
# take so many seconds already, has no time for all of them.
WARM_UP_STEPS = 5
LEAST_WARM_UP_STEPS, LONG_WARM_UP = 2, 3.0
# The warm-up that scoring finds may be longer than that; what is asked for is exceeded by so much.
MARGIN = 1.15
# From one look to the next, a training gets at most so many times longer: a pace may have been met by chance.
GROWTH = 4
# Numbers of steps travel between ranks as 32-bit floats, which are exact up to here.
MOST_AHEAD = 1 << 23
# Answers in place of a number of steps: all was measured, or the time is up before it was.
ENOUGH, CAPPED = 0, -1


class Length(NamedTuple):
    """After the warm-up at least `steps` and `seconds`, in a process that lives for about `most` seconds.

    `whole`: all steps of the recipe come first. Else training ends as soon as enough was measured.
    """

    steps: int
    seconds: float
    most: float
    whole: bool


class Measured:
    """The looks of one training. `planned`: steps that its recipe has left; `started`: seconds that the process lived
    before the first."""

    def __init__(self, length: Length, planned: int, started: float) -> None:
        self._length, self._planned, self._started = length, planned, started
        # Steps, seconds in steps and seconds in all, at the end of the warm-up.
        self._warm: tuple[int, float, float] | None = None

    def steps_ahead(self, made: int, trained: float, passed: float) -> int:
        """How many steps to make before the next look; `ENOUGH` and `CAPPED` end the training.

        `made` steps took `trained` seconds without evaluations and checkpoints; `passed` is with them, since the first
        step began.
        """
        if made < LEAST_WARM_UP_STEPS:
            return LEAST_WARM_UP_STEPS - made
        if made < WARM_UP_STEPS and self._warm is None and trained < LONG_WARM_UP:
            return 1
        if self._warm is None:
            self._warm = made, trained, passed
        warm_made, warm_trained, warm_passed = self._warm
        # Until there are steps after the warm-up, its own pace is all there is: slower than the machine.
        since, steps = (trained - warm_trained, made - warm_made) if made > warm_made else (trained, made)
        pace = max(since / steps, 1e-9)
        goal_steps, goal_seconds = MARGIN * self._length.steps, MARGIN * self._length.seconds
        missing = warm_made + math.ceil(goal_steps) - made
        missing = max(missing, math.ceil((warm_trained + goal_seconds - trained) / pace))
        if self._length.whole:
            missing = max(missing, self._planned - made)
        if missing <= 0:
            return ENOUGH
        # Every machine gets the seconds, however long it took to start: a slow one makes fewer steps in them.
        allowed = max(goal_seconds, self._length.most - self._started - warm_passed)
        room = math.floor((allowed - (passed - warm_passed)) / pace)
        if made == warm_made:
            room = max(1, room)
        return min(missing, room, GROWTH * made, MOST_AHEAD) if room > 0 else CAPPED


def of_config(config: dict[str, Any]) -> Length | None:
    """What trainmark asked for; None: the steps of the recipe and no more."""
    asked = config.get("length")
    return Length(asked["steps"], asked["seconds"], asked["most"], asked["whole"]) if asked else None
