"""Where trainmark keeps what it can make or fetch again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """$TRAINMARK_CACHE, else the user's cache folder."""
    named = os.environ.get("TRAINMARK_CACHE")
    if named:
        return Path(named).absolute()
    user = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG rules: a relative path there does not count.
    return (user if user.is_absolute() else Path.home() / ".cache") / "trainmark"
