"""A rank is killed, and the next attempt goes on from the last checkpoint with the same weights and momentum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.workloads.conftest import write_digits

from .conftest import FRAMEWORKS, Told

pytestmark = pytest.mark.frameworks
EVERY = 10


@pytest.fixture
def dim(tmp_path):
    """Hard to tell apart, so that there is still a loss when training goes on."""
    return write_digits(tmp_path, 640, 40, bright=45)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_round_goes_on_from_its_checkpoint(cli, whole_cache, dim, text, framework):
    workload, data, own = ("mnist", dim, ("steps=400", "batch=8", "eval_every=400"))
    if framework == "paddle":
        workload, data, own = ("bert", text, ("max_steps=150",))
    sets = [word for value in (f"data={data}", f"checkpoint_every={EVERY}", *own) for word in ("--set", value)]
    case = f"{workload}:{framework}:cpu:1:2:1"
    said = cli("goodput", case, "--preset", "smoke", "--kill", "1", *sets, "--json", code=None)
    run = Path(json.loads(said.stdout)["dir"])
    first, second = (Told.at(next(run.glob(f"*/round1/attempt{number}/*_noderank0"))) for number in (1, 2))
    assert second.of(0, "FINISHED") and second.of(1, "FINISHED")
    assert second.notes()["checkpoint_load_seconds"] > 0
    begun = second.of(0, "STEP_END")[0]["step"]
    assert begun > 2 * EVERY and begun % EVERY == 1, "it began after a checkpoint"
    before, after = first.by_step(), second.by_step()
    both = sorted(set(before) & set(after))
    assert [after[step] for step in both] == pytest.approx([before[step] for step in both], rel=0.01, abs=1e-4)
    hashes = {second.notes(rank)["weights_sha256"] for rank in (0, 1)}
    assert len(hashes) == 1, "the ranks learned the same"
