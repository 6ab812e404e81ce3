"""`batch: max`: the search, and real processes that really run out of memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.campaigns.fit import Tried, next_batch, next_step
from trainmark.errors import UserError
from trainmark.i18n.speaker import say
from trainmark.run.campaign import Shown
from trainmark.spec.case_id import CaseId
from trainmark.spec.scaling import Wanted

# Needs 8 MiB for each thing of its batch, and does not care for steps.
HUNGRY = """
import os, time
import trainmark_probe as probe

config = probe.config()
batch = config["params"]["batch"]
probe.init(unit="things")
room = [bytearray(8 << 20) for _ in range(batch)]
probe.init_end()
probe.train_start()
for step in range(12):
    time.sleep(0.01)
    probe.step(batch)
probe.train_end()
probe.finish()
"""


@pytest.mark.parametrize(("room", "most"), [(1, None), (31, None), (32, None), (40, None), (97, None), (500, 64)])
def test_the_search_finds_the_largest_multiple_in_few_tries(room: int, most: int | None) -> None:
    tried: dict[int, bool] = {}
    while isinstance(found := next_batch(tried, 8, most), int):
        assert found not in tried
        tried[found] = found <= room
    assert found.batch == min(room, most or room) // 8 * 8
    assert found.beyond == (None if most else found.batch + 8)
    assert len(tried) <= 9


def test_batches_are_looked_for_one_after_the_other_and_then_run() -> None:
    """Each answer follows from what the tries so far showed, whatever they were interrupted by."""
    wanted = [
        Wanted(CaseId.parse(f"thing:none:cpu:1:1:1@dtype={name}"), name, "suite.yaml: cases[0]", 4, None)
        for name in ("fp32", "bf16")
    ]
    shown: list[Shown] = []
    while (step := next_step(wanted, {"fp32": 8, "bf16": None}, shown)) is not None:
        if step.what == "run":
            break
        shown.append((step, Tried(step.arguments["key"] == "fp32" or step.arguments["batch"] <= 4)))
    assert [(one.arguments["key"], one.arguments["batch"]) for one, _ in shown] == [
        ("fp32", 4), ("fp32", 8), ("bf16", 4), ("bf16", 8)
    ]  # fmt: skip
    assert step is not None and {key: one["batch"] for key, one in step.arguments["fits"].items()} == {
        "fp32": 8,
        "bf16": 4,
    }
    assert "(no larger one was tried)" in say(step.arguments["fits"]["fp32"]["note"])
    assert next_step(wanted, {"fp32": 8, "bf16": None}, [*shown, (step, None)]) is None
    with pytest.raises(UserError, match="not even a batch of 4 fits"):
        next_step(wanted, {"fp32": 8, "bf16": None}, [(shown[0][0], Tried(False))])


@pytest.mark.slow
def test_the_largest_batch_under_a_memory_limit(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(HUNGRY)
    scaling = "{grid: [1x1, 1x2], batch: max, batch_step: 4, memory: 160MiB}"
    file = make_suite("  - thing:none:cpu:1:1:2", extra=f"window: {{skip: 1, steps: 8}}\nscaling: {scaling}")
    done = cli("run", str(file))
    assert "does not fit: out of memory" in done.stderr and "fits" in done.stderr
    (study,) = json.loads(cli("report", "--format", "json").stdout)["studies"]
    batch = study["cells"][0]["batch"]
    assert batch % 4 == 0 and 8 <= batch <= 16, "160 MiB hold at most 19 things beside the interpreter"
    assert f"{batch} is the largest multiple of 4 that fits ({batch + 4} ran out of memory)" in say(study["note"])
    assert all(cell["speedup"] for cell in study["cells"])
    assert cli("list", "--json").stdout.count('"run"') == 1, "tries are kept beside the runs and not listed"


def test_a_configuration_that_runs_out_of_memory_is_a_cell(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(HUNGRY.replace("range(batch)", "range(batch * (config['nnodes'] * config['nproc']) ** 9)"))
    scaling = "{grid: [1x1, 1x2], batch: max, batch_step: 4, memory: 160MiB}"
    file = make_suite("  - thing:none:cpu:1:1:1", extra=f"window: {{skip: 1, steps: 8}}\nscaling: {scaling}")
    assert "not even a batch of 4 fits" in cli("run", str(file), code=2).stderr
    # A batch that was given is not looked for, and a single process has room for it.
    full = "if config['nproc'] == 2:\n    raise MemoryError('no room')\nroom ="
    make_workload(HUNGRY.replace("room =", full))
    extra = "window: {skip: 1, steps: 8}\nscaling: {grid: [1x1, 1x2]}"
    cli("run", str(make_suite("  - thing:none:cpu:1:1:1", extra=extra)), code=1)
    (study,) = json.loads(cli("report", "--format", "json").stdout)["studies"]
    assert [cell["value"] for cell in study["cells"]] == [None, "OOM"] and study["cells"][1]["speedup"] is None
    assert "| OOM       | -       |" in cli("report", "--format", "md").stdout
