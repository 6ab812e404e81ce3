"""CPU seconds until the next architecture is chosen, beside NNI 2.10's NetworkMorphism tuner.

`--history N --json` prints {"history", "seconds", "peer_seconds", "ratio"} for a search that has seen N architectures;
`--no-peer` measures ours alone, `--start resnet50` on networks of that size. Without `--history` all bars are held:
some minutes, most of them the peer's with 100 architectures.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from figures import Figure, at_most, show, spread
from harness import HERE

from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.keys import canonical_hash
from trainmark.automl.graph.moves import neighbours
from trainmark.automl.graph.space import Limits
from trainmark.automl.graph.start_networks import resnet50, small_cnn
from trainmark.automl.search.morphism_bo import MorphismBO
from trainmark.automl.search.policy import Trial

PEER = Path(f"{sys.prefix}-nni") / "bin" / "python"
STARTS = {"small_cnn": small_cnn, "resnet50": resnet50}
LIMITS = {"small_cnn": Limits(), "resnet50": Limits(2**30, 300)}
REPEATS = 9
# history, start, bar in seconds or in times less than the peer
OURS = ((1000, "small_cnn", 0.03), (10_000, "small_cnn", 0.25), (1000, "resnet50", 0.06))
PEERS = ((5, 1000.0), (100, 5000.0))


def grown(start: Graph, limits: Limits, rng: random.Random) -> Iterator[Trial]:
    """Different architectures without end, each a child of any before it; of the latest all would be at the limits."""
    trials = [Trial(0, start, "0", 0.5)]
    seen = {start.layers}
    while True:
        yield trials[-1]
        while True:
            parent = rng.choice(trials)
            found = neighbours(parent.graph, rng, 1, limits)
            if found and found[0][1].layers not in seen:
                break
        ((move, child),) = found
        seen.add(child.layers)
        value = min(0.99, parent.value + rng.gauss(0.001, 0.02))  # type: ignore[operator]
        trials.append(Trial(len(trials), child, str(len(trials)), value, parent.number, (move,)))


def ours(history: int, start: str, repeats: int = REPEATS) -> list[float]:
    """CPU seconds of each of several next architectures; telling how the last one went is part of it."""
    rng = random.Random(history)
    first, limits = STARTS[start](), LIMITS[start]
    policy = MorphismBO([first], limits, {"initial": 0})  # by chance alone it would be too easy
    source = grown(first, limits, rng)
    known = [next(source) for _ in range(history)]
    for trial in known[:-1]:
        policy.tell(trial)
    policy.ask(known[:-1], [], rng)  # what was there before is learnt at once, and numpy is warm
    taken = []
    last = known[-1]
    for number in range(history, history + repeats):
        begin = time.process_time()
        policy.tell(last)
        proposal = policy.ask(known, [], rng)
        canonical_hash(proposal.graph)  # by which a worker sees whether it is new
        taken.append(time.process_time() - begin)
        last = Trial(number, proposal.graph, str(number), rng.gauss(0.6, 0.05), proposal.parent, proposal.moves)
        known.append(last)
    return taken


def peer(history: int) -> float:
    if not PEER.exists():
        raise SystemExit(f"{PEER} is missing; `make perf` installs the peers")
    argv = [str(PEER), str(HERE / "peers" / "nni_generate.py"), str(history), "1"]
    said = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    return float(json.loads(said.splitlines()[-1])["seconds"])


def one(history: int, start: str, with_peer: bool) -> None:
    taken = median(ours(history, start))
    theirs = peer(history) if with_peer else None
    record = {"history": history, "seconds": taken, "peer_seconds": theirs}
    print(json.dumps({**record, "ratio": theirs / taken if theirs else None}))


def everything() -> None:
    figures, details = [], {}
    for history, bar in PEERS:
        taken, theirs = ours(history, "small_cnn"), peer(history)
        ratio = theirs / median(taken)
        name, compared = f"next architecture, history of {history}", "peer ÷ ours"
        figures.append(
            Figure(name, "CPU s", median(taken), "NNI 2.10", theirs, compared, ratio, f"≥ {bar:g}", ratio >= bar)
        )
        details[f"{history} small_cnn"] = spread(taken)
    for history, start, bar in OURS:
        taken = ours(history, start)
        figures.append(at_most(f"next architecture, history of {history}, {start}", "CPU s", median(taken), bar))
        details[f"{history} {start}"] = spread(taken)
    how = f"median of {REPEATS} asks, each with the telling of one trial; one thread; the peer with its defaults, once"
    show("nas", how, figures, details)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=int)
    parser.add_argument("--start", choices=STARTS, default="small_cnn")
    parser.add_argument("--json", action="store_true", help="how results are printed in any case")
    parser.add_argument("--no-peer", action="store_true")
    args = parser.parse_args()
    if args.history is None:
        everything()
    elif args.history < 2:
        parser.error("--history: 2 or more")
    else:
        one(args.history, args.start, not args.no_peer)


if __name__ == "__main__":
    main()
