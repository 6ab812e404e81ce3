"""Calls over a network that fails now and then: which failures pass, how long to wait, and when to give up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from trainmark.errors import SiteError

_FIRST_SECONDS, _MOST_SECONDS = 0.3, 20.0
_PASSING = (408, 425, 429)
T = TypeVar("T")


class CallFailed(Exception):
    """A call that was answered with an error, or (status 0) not at all."""

    def __init__(self, what: str, status: int, code: str, message: str) -> None:
        super().__init__(f"{what}: {message}" if message else what)
        self.what, self.status, self.code, self.message = what, status, code, message

    @property
    def passes(self) -> bool:
        """Whether the same call may well succeed a little later."""
        return self.status == 0 or self.status >= 500 or self.status in _PASSING

    @property
    def unsure(self) -> bool:
        """Whether it may have been done all the same."""
        return self.status == 0 or self.status >= 500


def pauses(choose: Callable[[float, float], float] = random.uniform) -> Callable[[int], float]:
    """Seconds before try n: twice as long each time, with a chance that keeps many callers apart."""
    return lambda tries: choose(0.5, 1.0) * min(_MOST_SECONDS, _FIRST_SECONDS * 2.0 ** min(tries, 10))


class Caller:
    """Repeats calls that fail for now, within a time for each of them."""

    def __init__(
        self,
        seconds: float,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[int], float] | None = None,
    ) -> None:
        self._seconds, self.sleep, self._clock, self.pause = seconds, sleep, clock, pause or pauses()

    def deadline(self) -> float:
        return self._clock() + self._seconds

    def late(self, deadline: float) -> bool:
        return self._clock() >= deadline

    def __call__(self, call: Callable[[], T]) -> T:
        """CallFailed when it will not succeed, or did not in time."""
        deadline, tries = self.deadline(), 0
        while True:
            try:
                return call()
            except CallFailed as error:
                if not error.passes or self.late(deadline):
                    raise
            self.sleep(self.pause(tries))
            tries += 1


_AUTH = (
    *("APIG.0301", "APIG.0308", "SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied", "ModelArts.0010"),
    *("RequestTimeTooSkewed", "APIG.0306"),
)


def explained(error: CallFailed) -> SiteError:
    """The failure in words, with a cure."""
    said = f"{error.code}: {error.message}" if error.code else error.message
    if error.status == 0:
        return SiteError(f"{error.what}: no answer ({error.message}); check `endpoints` of the site and the network")
    if error.status == 401 or (error.status == 403 and error.code in _AUTH):
        cure = "check the keys, the project and the clock of this machine"
        return SiteError(f"{error.what}: the service refuses the keys ({said}); {cure}")
    if "quota" in error.message.lower():
        return SiteError(f"{error.what}: the quota is used up ({said}); wait for other jobs to end, or ask for more")
    if error.code == "NoSuchBucket" or "bucket" in error.message.lower():
        return SiteError(f"{error.what}: no such bucket ({said}); make it, or name another one in the site")
    if "flavor" in error.message.lower() or "pool" in error.message.lower():
        return SiteError(f"{error.what}: {said}; `trainmark doctor --site` lists what there is")
    if error.status == 429:
        return SiteError(f"{error.what}: the service lets too few calls pass ({said}); raise `poll_seconds`")
    return SiteError(f"{error.what}: the service answered {error.status} ({said})")
