"""A real training with gloo into which faults are put, in blocks that are interleaved within one process: the machine's
weather is the same for all kinds of a block."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import trainmark
from trainmark.score.diagnosis import causes as diagnosis
from trainmark.score.diagnosis.causes import RoundTrace
from trainmark.score.stats.confidence import plain_t
from trainmark.spec.columns import Trace
from trainmark.store import traces

PROBE = Path(trainmark.__file__).parent / "probe"
BLOCKS, STEPS, SKIP = 5, 20, 3
# Seconds of sleep, in the loader or in one rank.
INJECTED = 0.05
# The gradients, and a slow wire's rate. Of two ranks each sends as many bytes as there are gradients.
BYTES, BITS_PER_SECOND = 4 * 1000 * 1000, 200_000_000

PROGRAM = """
import json, random, subprocess, sys, time
import torch, torch.distributed as dist
from trainmark_diagnose import DATA_MARK, Diagnostic
from torch.nn.parallel import DistributedDataParallel

rank, out, blocks, steps, skip, injected, rate, kinds = int(sys.argv[1]), sys.argv[2], *eval(sys.argv[3])
store = dist.FileStore(out + "/store", 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(1000, 1000, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
order = random.Random(3)

def wire(*words):
    if rank == 1:
        subprocess.run(["tc", "qdisc", *words], check=True)
    dist.barrier()

slept = {kind: [] for kind in kinds}

def sleep():
    # A busy machine wakes nobody in time: what was put in is what it really took.
    began = time.monotonic()
    time.sleep(injected)
    slept[kind].append(time.monotonic() - began)

for block in range(blocks):
    for kind in order.sample(kinds, len(kinds)):
        if kind == "wire":
            wire("add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
        look = Diagnostic("trace:%d:%d" % (skip, steps), rank, "%s/%s-%d/node" % (out, kind, block))
        look.begin()
        while True:
            with look.mark(DATA_MARK):
                batch = torch.randn(8, 1000)
                if kind == "loader":
                    sleep()
            optimizer.zero_grad()
            model(batch).sum().backward()
            if kind == "straggler" and rank == 1:
                sleep()
            optimizer.step()
            if look.stepped():
                break
        look._profile.stop()
        dist.barrier()
        if kind == "wire":
            wire("del", "dev", "eth0", "root")
open("%s/slept-%d.json" % (out, rank), "w").write(json.dumps(slept))
"""


def start(
    rank: int, out: Path, kinds: Sequence[str], before: Sequence[str] = (), **env: str
) -> subprocess.Popen[bytes]:
    """`before`: the words that lead to the rank's host."""
    told = repr((BLOCKS, STEPS, SKIP, INJECTED, f"{BITS_PER_SECOND}bit", tuple(kinds)))
    argv = [*before, sys.executable, "-c", PROGRAM, str(rank), str(out), told]
    env = {"PYTHONPATH": str(PROBE), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **env}
    started = subprocess.Popen(argv, env={**os.environ, **env}, stderr=subprocess.PIPE)
    # Other tests at work beside it are no part of what is injected; but they must go on, too.
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, started.pid, -5)
    return started


def rounds_of(ranks: Sequence[subprocess.Popen[bytes]], out: Path, kinds: Sequence[str]) -> dict[str, list[RoundTrace]]:
    """What each kind's blocks look like, once all ranks have ended."""
    for rank in ranks:
        _, errors = rank.communicate(timeout=600)
        assert rank.returncode == 0, errors.decode()
    return {kind: [_round(out / f"{kind}-{block}") for block in range(BLOCKS)] for kind in kinds}


def _round(attempt: Path) -> RoundTrace:
    files = traces.find(attempt)
    found = [traces.read(file, rank, STEPS) for rank, file in files.items()]
    return diagnosis.read_round([one for one in found if isinstance(one, Trace)])


def of_class(name: str, rounds: Sequence[RoundTrace]) -> list[float]:
    """Of the first rank, block by block."""
    return [one.classes[0][name] for one in rounds]


def waited_for_second(rounds: Sequence[RoundTrace]) -> list[float]:
    return [sum(seconds for (last, _), seconds in one.waited[0].items() if last == 1) for one in rounds]


def slept(out: Path, rank: int, kind: str) -> float:
    """Seconds of a step that the program itself saw go by."""
    times = json.loads((out / f"slept-{rank}.json").read_text())[kind]
    return float(sum(times) / len(times))


def grown_most(with_it: Sequence[RoundTrace], without: Sequence[RoundTrace]) -> str:
    """The class of the first rank that is longer by most."""
    names = with_it[0].classes[0]
    return max(names, key=lambda name: sum(of_class(name, with_it)) - sum(of_class(name, without)))


def holds(with_it: list[float], without: list[float], injected: float) -> bool:
    """Whether the interval of the difference, paired by block, holds what was injected, give or take a fifth."""
    found = plain_t([a - b for a, b in zip(with_it, without, strict=True)])
    assert found is not None
    return 0 < found[1] <= 1.2 * injected and found[2] >= 0.8 * injected
