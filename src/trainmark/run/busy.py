"""Whether this machine has other work, and whose it is: said before a run begins, when it can still be ended."""

from __future__ import annotations

import os
import time

from trainmark.reasons import Reason, reason

# Runnable tasks per core, over the last minute, from which on a measurement would be disturbed.
BUSY = 0.5
_LOOK_SECONDS = 0.3
# Processes that are named: the busiest, from this share of a core on.
_NAMED, _LEAST_SHARE = 3, 0.1


def busy_machine() -> Reason | None:
    """None when it is quiet, which costs nothing to find out."""
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    if load <= BUSY * cores:
        return None
    busiest = _busiest()
    if not busiest:
        return None  # the load is of the past: nobody works now
    return reason("machine-busy", load=round(load, 1), cores=cores, processes="; ".join(busiest))


def _busiest() -> list[str]:
    """Other processes by the processor time they take now."""
    before, begin = _times(), time.monotonic()
    time.sleep(_LOOK_SECONDS)
    passed, ticks = time.monotonic() - begin, os.sysconf("SC_CLK_TCK")
    shares = sorted(
        ((now - before[pid][0]) / ticks / passed, pid, name)
        for pid, (now, name) in _times().items()
        if pid in before and pid != os.getpid()
    )
    found = [one for one in reversed(shares) if one[0] >= _LEAST_SHARE][:_NAMED]
    return [f"{_printable(name)} (pid {pid}) {100 * share:.0f} %" for share, pid, name in found]


def _printable(name: bytes) -> str:
    """A name may be anything, also a command to a terminal."""
    return "".join(char if char.isprintable() else "?" for char in name.decode(errors="replace"))


def _times() -> dict[int, tuple[int, bytes]]:
    """By process: clock ticks it has used, and its name."""
    found: dict[int, tuple[int, bytes]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb", buffering=0) as file:
                text = file.read()
        except OSError:
            continue  # it ended
        head, _, rest = text.rpartition(b")")
        fields = rest.split()
        found[int(entry)] = int(fields[11]) + int(fields[12]), head.partition(b"(")[2]
    return found
