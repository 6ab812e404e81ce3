"""Where trainmark keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path

from trainmark.agent import private
from trainmark.errors import UserError


def cache_dir(room: str = "") -> Path:
    """$TRAINMARK_CACHE, else the user's cache folder; a `room` is a folder in it. UserError where another account could
    have written: interpreters, node sides and figures are taken from there."""
    top = _top()
    for folder in (top, top / room) if room else (top,):
        try:
            why = private.why_foreign(str(folder), sticky=folder == top)
        except OSError:
            continue  # not there yet
        if why is not None:
            raise UserError(
                f"the cache {folder} is not used: {why}; `chmod go-w {folder}` if it is yours, "
                f"or set TRAINMARK_CACHE to a folder of your own (or {private.TRUSTED_OWNERS}, see docs/security.md)"
            )
    return top / room if room else top


def make(folder: Path) -> None:
    """A folder in the cache, made so that no other account can write to it, whatever the umask."""
    for path in reversed((folder, *folder.parents)):
        if not path.is_dir():
            path.mkdir(private.FOLDER, exist_ok=True)


def _top() -> Path:
    named = os.environ.get("TRAINMARK_CACHE")
    if named:
        return Path(named).absolute()
    user = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rules: a relative path there does not count.
    return (user if user.is_absolute() else Path.home() / ".cache") / "trainmark"
