"""Variables that a vendor's own scripts set (`set_env.sh` of a toolkit): ranks need them to find its libraries."""

from __future__ import annotations

import os
from typing import Mapping

from trainmark.agent.reasons import Reason, reason
from trainmark.devices.node_side.tools import said

# The script is an argument of this text, never part of it.
_SOURCE = 'source "$1" > /dev/null 2>&1; env -0'
_SHELLS_OWN = ("_", "SHLVL", "PWD", "OLDPWD", "LC_ALL", "LANG")


def variables(scripts: list[str], inherited: Mapping[str, str]) -> tuple[dict[str, str], list[Reason]]:
    """What the scripts that exist change in the environment, and what went wrong. A login that has done so already is
    left as it is."""
    found: dict[str, str] = {}
    warnings = []
    for script in scripts:
        if not os.path.isfile(script):
            continue
        answer = said(["bash", "-c", _SOURCE, "trainmark", script])
        if answer.problem:
            warnings.append(reason("vendor-setup-failed", script=script, why=answer.problem))
            continue
        for pair in answer.text.split("\0"):
            name, equals, value = pair.partition("=")
            if equals and name not in _SHELLS_OWN and inherited.get(name) != value:
                found[name] = value
    return found, warnings
