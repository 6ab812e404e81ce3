"""Where the time of a step goes, on one rank: classes that are apart from each other and add up to the step.

The device's timeline decides: computing, then communication and copies that computing does not hide, then nothing at
all. What the host did meanwhile says why there was nothing. A CPU is its own device; what it does while loading
data is waiting for data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trainmark.score.diagnosis import spans as intervals

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats, Trace

COMPUTE, TRANSFER, WAITING, COPIES = "compute", "transfer", "waiting", "copies"
DATA, HOST, LAUNCH, UNEXPLAINED = "data", "host", "launch", "unexplained"
CLASSES = (COMPUTE, TRANSFER, WAITING, COPIES, DATA, HOST, LAUNCH, UNEXPLAINED)
# Between two pieces of work that were both asked for in time, a device needs up to this long to begin the second.
LAUNCH_SECONDS = 10e-6


class Timeline(msgspec.Struct, frozen=True, eq=False):
    """Sets of spans inside the steps of one rank. `exposed` communication is not yet divided."""

    steps: Floats
    compute: Floats
    exposed: Floats
    copies: Floats
    data: Floats
    host: Floats
    launch: Floats
    unexplained: Floats
    communication: Floats

    def local(self) -> dict[str, Floats]:
        """What a rank does by itself."""
        host = intervals.join((self.host, self.launch, self.unexplained))
        return {COMPUTE: self.compute, DATA: self.data, HOST: host, COPIES: self.copies}

    @property
    def overlap(self) -> float | None:
        """The share of communication that is hidden behind computing."""
        whole = intervals.length(self.communication)
        hidden = intervals.length(intervals.both(self.communication, self.compute))
        return hidden / whole if whole > 0 else None

    @property
    def count(self) -> int:
        return len(self.steps)


def timeline(trace: Trace) -> Timeline:
    inside = intervals.without(intervals.union(trace.steps), intervals.union(trace.pauses))

    def in_steps(spans: Floats) -> Floats:
        return intervals.both(intervals.union(spans), inside)

    communication = intervals.both(intervals.join(one.spans for one in trace.collectives), inside)
    compute, marks = in_steps(trace.compute), in_steps(trace.data)
    if not trace.device:
        compute = intervals.without(compute, marks)
    exposed = intervals.without(communication, compute)
    if not trace.device:
        exposed = intervals.without(exposed, marks)
    busy = intervals.join((compute, exposed))
    copies = intervals.without(in_steps(trace.copies), busy)
    idle = intervals.without(inside, intervals.join((busy, copies)))
    data = intervals.both(idle, marks)
    rest = intervals.without(idle, marks)
    host, launch, unexplained = _why(trace, rest)
    return Timeline(trace.steps, compute, exposed, copies, data, host, launch, unexplained, communication)


def per_step(found: Timeline, waiting: Floats) -> dict[str, Floats]:
    """Seconds of each class in each step; `waiting` is the set in which the rank waited for another one."""
    held = intervals.both(found.exposed, waiting)
    sets = {
        COMPUTE: found.compute,
        TRANSFER: intervals.without(found.exposed, held),
        WAITING: held,
        COPIES: found.copies,
        DATA: found.data,
        HOST: found.host,
        LAUNCH: found.launch,
        UNEXPLAINED: found.unexplained,
    }
    return {name: intervals.within(spans, found.steps) for name, spans in sets.items()}


def _why(trace: Trace, gaps: Floats) -> tuple[Floats, Floats, Floats]:
    """Idle time divided: the host had not asked for more; a device's short breath; neither."""
    import numpy as np

    short = gaps[:, 1] - gaps[:, 0] < LAUNCH_SECONDS
    late = ~short
    if trace.device:
        work = np.concatenate([trace.compute, trace.copies, *(one.spans for one in trace.collectives)])
        order = np.argsort(work[:, 0], kind="stable")
        begins, asked = work[order, 0], trace.launches[order]
        following = np.searchsorted(begins, gaps[:, 1] - 1e-12)
        known = following < len(begins)
        launched = np.where(known, asked[np.minimum(following, len(begins) - 1)], np.nan)
        # Comparing with NaN is false: what is not known is not blamed on the host.
        late = launched > gaps[:, 0]
        short &= ~late
    return gaps[late], gaps[short], gaps[~late & ~short]
