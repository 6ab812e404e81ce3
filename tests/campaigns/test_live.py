"""`trainmark compare --live`: on a machine that gets slower with every round, which only turns can see through."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import trainmark as tm
from tests.campaigns.test_kills import attempts, killed
from tests.conftest import Cli
from tests.runs import finished_run
from trainmark.plan import turns
from trainmark.store import journal

# Each round on this machine takes 15 % longer than the one before it, whoever runs it.
TRAIN = """
import fcntl, os, random
with open({count!r}, "a+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write("x")
    file.flush()
    number = os.fstat(file.fileno()).st_size
pace = {pace} * 1.15 ** number
for step in range(1, 61):
    print("step %d took %.6f s" % (step, pace * random.lognormvariate(0, 0.003)))
"""
SUITE = """
schema: 1
name: {name}
window: {{skip: 10, steps: 40}}
cases:
  - command: [{python}, -u, train.py]
    name: drifting
    pattern: 'step (?P<step>\\d+) took (?P<seconds>[\\d.]+) s'
    batch: 8
"""


def suite(folder: Path, name: str, pace: float) -> str:
    place = folder / name
    place.mkdir()
    (place / "train.py").write_text(TRAIN.format(count=str(folder / "count"), pace=pace))
    (place / "suite.yaml").write_text(SUITE.format(name=name, python=sys.executable))
    return f"{name}/suite.yaml"


def starts(cli: Cli, run: str) -> list[int]:
    return [one.wall for one in journal.read(cli.runs / run).records if one.k == journal.ATTEMPT]


def test_a_difference_smaller_than_the_drift_is_found(cli: Cli) -> None:
    old, new = suite(cli.folder, "old", 0.25), suite(cli.folder, "new", 0.5)
    found = cli.json("compare", "--live", old, new, "--rounds", "4", "--seed", "5", code=4)
    (case,) = found["cases"]
    assert case["verdict"]["word"] == "slower" and "paired" in case["verdict"]["method"]["code"]
    assert 0.4 < case["verdict"]["ratio"] < 0.6 and case["verdict"]["n_a"] == 4
    assert [one["code"] for one in case["notes"]][:1] == ["taken-in-turns"]
    # In each block both have their turn before the next block begins.
    begun = sorted(
        [(wall, "A") for wall in starts(cli, found["a"])] + [(wall, "B") for wall in starts(cli, found["b"])]
    )
    order = [side for _, side in begun]
    assert [set(order[index : index + 2]) for index in range(0, 8, 2)] == [{"A", "B"}] * 4
    assert order == [side for side, _ in turns.order(4, 5)]
    again = cli.json("compare", found["a"], found["b"], code=4)
    assert again["cases"] == found["cases"], "two ordinary runs, compared once more"
    assert cli.json("report", found["a"])["state"] == "SUCCEEDED"
    # A run that was made is a side, too, and so is one case of it.
    same = cli.json("compare", "--live", found["a"], f"{found['a']}:drifting", "--rounds", "2", code=None)
    assert same["cases"][0]["verdict"]["n_b"] == 2 and not {same["a"], same["b"]} & {found["a"], found["b"]}


def test_killed_and_resumed(cli: Cli) -> None:
    old, new = suite(cli.folder, "old", 0.25), suite(cli.folder, "new", 0.5)
    killed(cli, ["compare", "--live", old, new, "--rounds", "3"], lambda: attempts(cli.runs) >= 2)
    assert cli("compare", *(path.name for path in cli.runs.glob("2*")), code=2).stderr.count("not finished") == 1
    found = cli.json("resume", code=4)
    assert found["cases"][0]["verdict"]["n_a"] == found["cases"][0]["verdict"]["n_b"] == 3
    assert cli.json("resume", found["a"], code=4) == found, "either run stands for both; nothing is run again"
    assert attempts(cli.runs) <= 7 and len(list(cli.runs.glob("2*"))) == 2


def test_one_name_and_what_is_different_for_b(cli: Cli) -> None:
    case = "noop:none:cpu:1:1:1@seconds=0.06,steps=12"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cli.folder)
        found = tm.compare(case, live=True, rounds=2, set_b={"batch": 20}, runs=cli.runs, force=True).record
    (one,) = found[0].cases
    assert "@batch" not in one.case_a and "batch=20" in one.case_b and (one.verdict.n_a, one.verdict.n_b) == (2, 2)
    assert found[0].left == [] and found[0].overall.missing == []


def test_bad_words(cli: Cli) -> None:
    def said(*argv: str) -> str:
        return cli("compare", *argv, code=2).stderr

    noop, other = "noop:none:cpu:1:1:3", "mnist:pytorch:cpu:1:1:3"
    assert "takes A and B in turns, found 1" in said("--live", noop)
    assert "takes A and B in turns, found 3" in said("--live", noop, noop, noop)
    assert "--rounds: found 1" in said("--live", noop, noop, "--rounds", "1")
    assert "--rounds is for --live" in said("a", "b", "--rounds", "3")
    assert "--set-b is for --live" in said("a", "b", "--set-b", "batch=3")
    assert "no run" in said("--live", "nosuch", noop)
    finished_run(cli.runs, "20260101-a", {noop: [5.0, 5.0, 5.0]})
    assert "run again as it was" in said("--live", "20260101-a", noop, "--set", "batch=3")
    suites = {name: cli.folder / f"{name}.yaml" for name in ("one", "two")}
    for name, file in suites.items():
        cases = [noop, other] if name == "one" else ["bert:pytorch:cpu:1:1:3"]
        file.write_text(json.dumps({"cases": cases}))
    assert "no case in common" in said("--live", "one.yaml", "two.yaml")
    assert sorted(path.name for path in cli.runs.iterdir() if path.name.startswith((".live", "2"))) == ["20260101-a"]


def test_partners() -> None:
    from tests.plans import plan

    def cases(*names: str) -> Any:
        made = plan([1] * len(names)).cases
        return [
            msgspec.structs.replace(one, case=name, workload=name.split(":")[0])
            for one, name in zip(made, names, strict=True)
        ]

    def matched(a: list[str], b: list[str]) -> list[tuple[str, str]]:
        return [(one.case, other.case) for one, other in turns.partners(cases(*a), cases(*b))]

    one, two, wide = "one:none:cpu:1:1:5", "two:none:cpu:1:1:5", "two:none:cpu:1:1:5@batch=4"
    assert matched([one, two], [wide, one]) == [(one, one), (two, wide)]
    assert matched([one, two], [one]) == [(one, one)]
    assert matched([one], [two]) == [(one, two)], "two single cases are compared, whatever they are"
    assert matched([one, two], [two.replace("cpu", "x"), one.replace("cpu", "x")]) == []
