"""`repeat: auto` from the suite to the report, with real rounds and a real resume."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from trainmark.i18n.speaker import say
from trainmark.store import journal

Make = Callable[..., Path]

# Its clock is made up: 100 steps in a moment, which claim to have taken 20 s and more, depending on the round.
PROGRAM = """\
import trainmark_probe as probe

now = probe.monotonic_ns()
probe.monotonic_ns = lambda: now
config = probe.config()
probe.init(unit="things")
probe.init_end()
probe.train_start()
for step in range(100):
    now += (200 + {spread} * (config["seed"] % 3)) * 1_000_000
    probe.step(8)
probe.train_end()
probe.finish()
"""


def enough(cli: Cli) -> list[journal.Record]:
    return [record for record in journal.read(cli.runs / cli.run_id()).records if record.k == journal.ENOUGH]


@pytest.mark.parametrize(("spread", "rounds", "said"), [(0, 4, "4 rounds are enough for ±2 %"), (40, 6, "at most 6")])
def test_the_pilot_decides(
    cli: Cli, make_workload: Make, make_suite: Make, spread: int, rounds: int, said: str
) -> None:
    make_workload(PROGRAM.format(spread=spread))
    file = make_suite(
        "  - thing:none:cpu:1:1:auto\n  - thing:none:cpu:1:1:1@batch=2", extra="repeat_auto: {pilot: 3, min: 4, max: 6}"
    )
    report = cli.json("run", str(file))
    case = report["cases"][0]
    assert report["state"] == "SUCCEEDED" and case["counted"] == rounds and said in say(case["reason"]), case
    # Rounds that were not needed are missing nowhere.
    assert case["rounds"] == rounds and "rounds succeeded" not in say(case["measurements"]["throughput"]["reason"])
    assert said in cli("report").stdout
    (record,) = enough(cli)
    assert (record.case, record.round) == (0, rounds)
    assert "nothing left to do" in cli("resume").stdout
    assert len(enough(cli)) == 1 and cli("status").stdout.count("SUCCEEDED") == rounds + 2
    assert "rounds: 4 to 6, as many as ±2 % takes" in cli("plan", str(file)).stdout


def test_rounds_without_a_speed_end_with_the_pilot(cli: Cli) -> None:
    report = cli.json("run", "noop:none:cpu:1:1:auto", "--preset", "smoke")
    assert report["state"] == "SUCCEEDED" and report["cases"][0]["counted"] == 5
    assert "0 of 5 pilot rounds gave a speed" in say(report["cases"][0]["reason"])


def test_a_decision_that_was_lost_is_made_again(cli: Cli) -> None:
    """The controller dies after the pilot and before it wrote down what follows from it."""
    cli("run", "noop:none:cpu:1:1:auto", "--preset", "smoke")
    file = cli.runs / cli.run_id() / journal.NAME
    lines = [line for line in file.read_text().splitlines() if json.loads(line)["k"] not in ("enough", "finished")]
    file.write_text("\n".join(lines) + "\n")
    assert cli.json("resume")["cases"][0]["counted"] == 5
    assert len(enough(cli)) == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{target: 200%}", "repeat_auto.target: found `200%`"),
        ("{pilot: 2}", "repeat_auto.pilot: found 2"),
        ("{min: 4}", "repeat_auto.min: found 4"),
        ("{max: 9}", "repeat_auto.max: found 9"),
        ("{most: 4}", "unknown key `most`"),
    ],
)
def test_bad_rules(cli: Cli, make_workload: Make, make_suite: Make, text: str, complaint: str) -> None:
    make_workload()
    found = cli("plan", str(make_suite("  - thing:none:cpu:1:1:auto", extra=f"repeat_auto: {text}")), code=2)
    assert complaint in found.stderr


def test_a_run_that_is_out_of_time_gives_up_further_rounds_and_no_case(
    cli: Cli, make_workload: Make, make_suite: Make
) -> None:
    make_workload(PROGRAM.format(spread=0))
    cases = "  - thing:none:cpu:1:1:3\n  - thing:none:cpu:1:1:2@batch=2"
    report = cli.json("run", str(make_suite(cases, extra="within: 0.01")))
    assert report["state"] == "SUCCEEDED" and [case["counted"] for case in report["cases"]] == [1, 1]
    assert all(case["measurements"]["throughput"]["inputs"] for case in report["cases"]), "every case has its figure"
    for case, wanted in zip(report["cases"], (3, 2), strict=True):
        assert f"1 of {wanted} rounds: the run's 0.01 s are used up" in [say(note) for note in case["notes"]]
    assert "nothing left to do" in cli("resume").stdout
