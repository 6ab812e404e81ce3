"""An experiment on 4,096 slots for 12 hours, simulated: how long devices idle, the score, what the controller spends.

The search, the moves, the operations counted and the epochs by round are the real ones, in simulated time. Made up are
the devices (RATE operations per second each), how accurate an architecture is (a saturating function of its operations,
with noise), and the ledger, which is one server that hands over HANDOVERS trials per second, the bar of `handover.py`.
What the controller spends is measured on a real ledger of that many entries: its share of the ledger alone, without the
launcher's following of nodes. `--slots N --trials N --hours H` change the size.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import argparse
import heapq
import math
import random
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from figures import at_most, show
from handover import fill

from trainmark.automl.experiment.config import Training
from trainmark.automl.experiment.schedule import budget
from trainmark.automl.experiment.score import regulated
from trainmark.automl.experiment.supervisor import LOOK_SECONDS
from trainmark.automl.graph.flops import count, epoch
from trainmark.automl.graph.space import Limits
from trainmark.automl.graph.start_networks import small_cnn
from trainmark.automl.ledger.ledger import open_ledger
from trainmark.automl.search.morphism_bo import MorphismBO
from trainmark.automl.search.policy import Trial

RATE = 4e9  # slow, so that the trials last the 12 hours
IMAGES, TEST_IMAGES = 50_000, 10_000
HANDOVERS = 50.0
MOST_MINUTES, MOST_IDLE = 20.0, 0.01


@dataclass
class Outcome:
    trials: int = 0
    busy: float = 0.0
    operations: float = 0.0
    best: float = 0.0
    asks: list[float] = field(default_factory=list)


def accuracy(operations: float, rng: random.Random) -> float:
    return min(0.99, 1 - 0.5 * math.exp(-math.log10(operations) / 4) + rng.gauss(0, 0.01))


def simulate(slots: int, trials: int, seconds: float) -> Outcome:
    rng, found = random.Random(1), Outcome()
    start, epochs = small_cnn(), Training().epochs
    policy = MorphismBO([start], Limits(), {})
    history: list[Trial] = []
    pending: dict[int, Trial] = {}
    free = 0.0  # when the ledger can serve the next
    events = [(0.0, slot, -1) for slot in range(slots)]
    while events:
        now, slot, ended = heapq.heappop(events)
        if ended >= 0:
            one = pending.pop(ended)
            value = accuracy(count(one.graph, "trainmark").train, rng)
            history.append(Trial(one.number, one.graph, one.key, value, one.parent, one.moves))
            policy.tell(history[-1])
            found.best = max(found.best, value)
        if found.trials >= trials:
            continue
        begin = time.process_time()
        proposal = policy.ask(history, list(pending.values()), rng)
        found.asks.append(time.process_time() - begin)
        number = found.trials
        found.trials += 1
        pending[number] = Trial(number, proposal.graph, str(number), None, proposal.parent, proposal.moves)
        free = max(free, now) + 1 / HANDOVERS
        # The first is waited for; the others were made beside the training before.
        first = free + (found.asks[-1] if ended < 0 else 0.0)
        work = epoch(count(proposal.graph, "trainmark"), IMAGES, TEST_IMAGES)
        whole = int((seconds - first) * RATE / work) if first < seconds else 0
        done = min(budget(epochs, number // slots), whole)
        found.operations += done * work
        end = first + budget(epochs, number // slots) * work / RATE
        found.busy += max(0.0, min(end, seconds) - first)
        if end < seconds:
            heapq.heappush(events, (end, slot, number))
    return found


def controller(trials: int) -> tuple[float, float]:
    """CPU seconds of reading the whole journal once, and of one look at it."""
    with tempfile.TemporaryDirectory(prefix="trainmark-perf-") as folder:
        fill(Path(folder), trials)
        begin = time.process_time()
        ledger = open_ledger(f"journal:{Path(folder) / 'ledger.log'}", "handover")
        ledger.entries()
        replay = time.process_time() - begin
        begin = time.process_time()
        for _ in range(5):
            ledger.entries()
        look = (time.process_time() - begin) / 5
    return replay, look


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=4096)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--hours", type=float, default=12.0)
    args = parser.parse_args()
    seconds = args.hours * 3600
    wall, cpu = time.monotonic(), time.process_time()
    found = simulate(args.slots, args.trials, seconds)
    spent = time.process_time() - cpu
    replay, look = controller(found.trials)
    share = (replay + look * seconds / LOOK_SECONDS) / seconds
    idle = 1 - found.busy / (args.slots * seconds)
    score = found.operations / seconds
    figures = [
        at_most(f"simulation of {args.slots} slots", "CPU min", spent / 60, MOST_MINUTES),
        at_most("devices idle, simulated", "share", idle, MOST_IDLE),
    ]
    details = {
        "trials": found.trials,
        "score_flops": score,
        "regulated_score": regulated(score, 1 - found.best),
        "most_score_flops": args.slots * RATE,
        "controller_cpu_share_of_ledger": share,
        "ask_cpu_s": {"mean": sum(found.asks) / len(found.asks), "max": max(found.asks)},
        "wall_s": time.monotonic() - wall,
    }
    how = f"simulated time; one ledger hands over {HANDOVERS:g} trials per second, a device does {RATE:g} FLOPS"
    show("automl_scale", how, figures, details)


if __name__ == "__main__":
    main()
