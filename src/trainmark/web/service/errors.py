"""Why the service refuses something. Each is a UserError, so the command line understands it, too."""

from __future__ import annotations

from trainmark.errors import UserError


class NotFound(UserError):
    """There is no such thing, or it is not the asker's business whether there is."""


class Refused(UserError):
    """The asker may not do this."""


class Conflict(UserError):
    """It cannot be done in the state that things are in."""


class SignInFailed(UserError):
    """Wrong name or password, or none; which one is not said."""


class TooMany(UserError):
    """Too often in too short a time. `seconds`: when it is worth trying again."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many attempts; try again later")
        self.seconds = max(1, round(seconds))
