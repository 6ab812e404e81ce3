"""Real processes, killed with SIGKILL in their runs and between them: `trainmark resume` goes on, and nothing is done
twice. (`tests/run/test_campaign.py` kills at every moment, without processes.)"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.test_bisect import git, repository
from tests.campaigns.test_fit import HUNGRY
from tests.conftest import Cli
from tests.faults.conftest import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("nothing_left")]

# Goes on from its last checkpoint; rank 0 saves them.
SAVING = """
import os, time
import trainmark_probe as probe

config = probe.config()
folder, every = config["checkpoints"], config["params"]["checkpoint_every"]
os.makedirs(folder, exist_ok=True)
last = max((int(name[5:]) for name in os.listdir(folder)), default=0)
probe.init(unit="things")
if last:
    probe.resume(last)
probe.init_end()
probe.train_start()
for step in range(last + 1, config["params"]["steps"] + 1):
    time.sleep(0.02)
    probe.step(1)
    if step % every == 0 and os.environ["RANK"] == "0":
        open(os.path.join(folder, "step-%d" % step), "w").close()
probe.train_end()
probe.finish()
"""
STEPS = """\
  steps: {type: int, default: 250, min: 1}
  checkpoint_every: {type: int, default: 10, min: 0}
presets:"""


def killed(cli: Cli, argv: list[str], seen: Callable[[], object]) -> None:
    """Starts the program, and kills it as soon as something is seen."""
    process = cli.start(*argv)
    try:
        wait_for(lambda: seen() or process.poll() is not None)
        assert process.poll() is None, process.communicate()
    finally:
        process.kill()
        process.communicate()


def members(cli: Cli) -> list[dict[str, Any]]:
    files = list(cli.runs.glob(".*/campaign.json"))
    return json.loads(files[0].read_bytes())["members"] if files else []


def attempts(folder: Path) -> int:
    return sum(file.read_text().count('"k":"attempt"') for file in folder.glob("**/journal.jsonl"))


def test_a_bisection(cli: Cli) -> None:
    commits = repository(cli.folder, ["0.25", "0.25", "0.28"])
    killed(cli, ["bisect", "--good", commits[0], "--bad", "main", "repo/suite.yaml"], lambda: attempts(cli.runs))
    assert len(members(cli)) == 1 and git(cli.folder / "repo", "worktree", "list").count("\n") == 1
    killed(cli, ["resume"], lambda: len(members(cli)) >= 4)
    (folder,) = cli.runs.glob(".bisect-*")
    found = cli.json("resume", folder.name)
    assert found["commit"] == commits[2] and found["runs"] == str(folder)
    assert len(members(cli)) == found["rounds"] == len(list(folder.glob("*/manifest.json")))
    assert git(cli.folder / "repo", "worktree", "list").count("\n") == 0, "no work tree is left"
    assert cli.json("resume", folder.name) == found and len(members(cli)) == found["rounds"]


def test_a_search_for_the_largest_batch(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(HUNGRY)
    extra = "window: {skip: 1, steps: 8}\nscaling: {grid: [1x1], batch: max, batch_step: 4, memory: 160MiB}"
    file = make_suite("  - thing:none:cpu:1:1:2", extra=extra)
    killed(cli, ["run", str(file)], lambda: attempts(cli.runs))
    killed(cli, ["resume"], lambda: len(members(cli)) >= 3)
    file.unlink()  # what was asked for is in the record
    report = cli.json("resume")
    assert report["state"] == "SUCCEEDED" and report["run"] == cli.run_id()
    tries = [one["step"]["arguments"].get("batch") for one in members(cli)]
    assert len(tries) == len(set(tries)) and tries[-1] is None, "no batch is tried twice; the run comes last"
    assert f"{report['studies'][0]['cells'][0]['batch']} is the largest multiple of 4" in str(report["studies"])
    assert cli.json("resume")["run"] == report["run"], "nothing is left to do"


def test_a_rank_is_killed_once_however_often_the_controller_is(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    from tests.conftest import WORKLOAD

    make_workload(SAVING, yaml=WORKLOAD.replace("presets:", STEPS.replace("{", "{{").replace("}", "}}")))
    file = make_suite("  - thing:none:cpu:1:2:1")
    killed(cli, ["goodput", str(file), "--kill", "1"], lambda: list(cli.runs.glob("*/*/round1/checkpoints/*/step-*")))
    (log,) = cli.runs.glob("*/run.log")
    killed(cli, ["resume"], lambda: "killed by signal 9" in log.read_text())
    (one,) = cli.json("resume")["cases"]
    assert one["goodput"]["attempts"] >= 2 and len(one["goodput"]["recoveries"]) >= 1
    assert log.read_text().count("killed by signal 9") == 1


def test_an_acceptance(cli: Cli) -> None:
    """Of this machine alone; several nodes are in `test_accept`."""
    killed(cli, ["accept", "--case", "noop:none:cpu:1:1:5", "--preset", "smoke"], lambda: attempts(cli.runs) >= 2)
    found = cli.json("resume", code=None)
    assert found["runs"] == [cli.run_id()] and [one["node"] for one in found["nodes"]] == [os.uname().nodename]
    assert attempts(cli.runs) <= 6, "at most the round that was cut off was begun again"
