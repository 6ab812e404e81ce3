"""What must not be written down: names and values that look like secrets."""

from __future__ import annotations

import re

_NAME = r"(?i)TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|SESSION|(^|_)(API|ACCESS|PRIVATE|SIGNING)?_?KEY"
_VALUE = r"://[^/\s:@]*:[^/\s@]+@|\b(gh[pousr]_|AKIA|xox[abp]-|sk-)[A-Za-z0-9_-]{8,}|-----BEGIN"


def looks_secret(name: str, value: str) -> bool:
    return bool(re.search(_NAME, name) or re.search(_VALUE, value))
