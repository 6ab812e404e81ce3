"""What must not be written down: names and values that look like secrets."""

from __future__ import annotations

import re

_WORDS = ("TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "COOKIE", "SESSION")
_KEY = r"(^|_)(API|ACCESS|PRIVATE|SIGNING)?_?KEY"
_VALUE = r"://[^/\s:@]*:[^/\s@]+@|\b(gh[pousr]_|AKIA|xox[abp]-|sk-)[A-Za-z0-9_-]{8,}|-----BEGIN"
# One of these is in every such value. Making the pattern costs a thousand times as much as looking for them.
_HINTS = ("://", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "AKIA", "xox", "sk-", "-----BEGIN")


def looks_secret(name: str, value: str) -> bool:
    name = name.upper()
    if any(word in name for word in _WORDS) or ("KEY" in name and re.search(_KEY, name)):
        return True
    return any(hint in value for hint in _HINTS) and bool(re.search(_VALUE, value))
