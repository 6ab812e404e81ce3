"""The way from a hook into the recording: an error there turns the recording off and never reaches the program."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable


def guard_of(events: Any) -> Callable[..., Any]:
    """Calls a method of `events`; after an error nothing more is recorded."""

    def call(part: Callable[..., Any], *arguments: Any) -> Any:
        if events.on:
            try:
                return part(*arguments)
            except Exception as error:
                events.on = False
                text = "%s: %s" % (type(error).__name__, error)
                sys.stderr.write("trainmark: training is no longer measured: %s\n" % text)
                try:
                    events.say("broken %d %s" % (os.getpid(), text))
                except OSError:
                    pass
        return None

    return call
