"""Faults put into real training, and found under their own headings. Real torch, real gloo, the real profiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainmark
from trainmark.score import diagnosis
from trainmark.score.diagnosis import Observed, RoundTrace
from trainmark.score.interval import plain_t
from trainmark.spec.trace import Trace
from trainmark.store import traces

PROBE = Path(trainmark.__file__).parent / "probe"
BLOCKS, STEPS, SKIP = 5, 20, 3
INJECTED = 0.05
KINDS = ("clean", "loader", "straggler")

# Blocks are interleaved in one process: the machine's weather is the same for all kinds of a block.
PROGRAM = """
import random, sys, time
import torch, torch.distributed as dist
from trainmark_diagnose import DATA_MARK, Diagnostic
from torch.nn.parallel import DistributedDataParallel

rank, out, blocks, steps, skip, injected, kinds = int(sys.argv[1]), sys.argv[2], *eval(sys.argv[3])
store = dist.FileStore(out + "/store", 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
order = random.Random(3)
for block in range(blocks):
    for kind in order.sample(kinds, len(kinds)):
        look = Diagnostic("trace:%d:%d" % (skip, steps), rank, "%s/%s-%d/node" % (out, kind, block))
        look.begin()
        while True:
            with look.mark(DATA_MARK):
                batch = torch.randn(32, 256)
                if kind == "loader":
                    time.sleep(injected)
            optimizer.zero_grad()
            model(batch).sum().backward()
            if kind == "straggler" and rank == 1:
                time.sleep(injected)
            optimizer.step()
            if look.stepped():
                break
        look._profile.stop()
        dist.barrier()
"""


@pytest.fixture(scope="module")
def rounds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[RoundTrace]]:
    out = tmp_path_factory.mktemp("injected")
    told = repr((BLOCKS, STEPS, SKIP, INJECTED, KINDS))
    env = {**os.environ, "PYTHONPATH": str(PROBE), "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), str(out), told], env=env, stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for rank in ranks:
        _, errors = rank.communicate(timeout=300)
        assert rank.returncode == 0, errors.decode()
    return {kind: [_round(out / f"{kind}-{block}") for block in range(BLOCKS)] for kind in KINDS}


def _round(attempt: Path) -> RoundTrace:
    files = traces.find(attempt)
    found = [traces.read(file, rank, STEPS) for rank, file in files.items()]
    return diagnosis.read_round([one for one in found if isinstance(one, Trace)])


def interval(with_it: list[float], without: list[float]) -> tuple[float, float]:
    """Of the difference, paired by block."""
    found = plain_t([a - b for a, b in zip(with_it, without, strict=True)])
    assert found is not None
    return found[1], found[2]


def holds(ends: tuple[float, float]) -> bool:
    """Whether the interval holds what was injected, give or take a fifth."""
    return ends[0] <= 1.2 * INJECTED and ends[1] >= 0.8 * INJECTED and ends[0] > 0


def test_a_slow_loader_is_waiting_for_data(rounds: dict[str, list[RoundTrace]]) -> None:
    waited = {kind: [one.classes[0]["data"] for one in rounds[kind]] for kind in KINDS}
    assert holds(interval(waited["loader"], waited["clean"]))
    told = diagnosis.diagnose("x:pytorch:cpu:1:2:1", [Observed(one) for one in rounds["loader"]], {0: "n1", 1: "n1"})
    assert told.causes[0].kind == "data" and "loader" in told.causes[0].place


def test_a_slow_rank_makes_the_others_wait(rounds: dict[str, list[RoundTrace]]) -> None:
    def charged(one: RoundTrace) -> float:
        return sum(seconds for (last, _), seconds in one.waited[0].items() if last == 1)

    waited = {kind: [charged(one) for one in rounds[kind]] for kind in KINDS}
    assert holds(interval(waited["straggler"], waited["clean"]))
    told = diagnosis.diagnose("x:pytorch:cpu:1:2:1", [Observed(one) for one in rounds["straggler"]], {0: "n1", 1: "n2"})
    first = told.causes[0]
    assert first.kind == "waiting" and "rank 1 on n2: its host program" in first.place
    assert all(one.kind != "data" or (one.seconds.value or 0) < INJECTED / 2 for one in told.causes)
