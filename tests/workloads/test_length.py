"""How long a training goes on, on machines of any speed: the arithmetic alone, against a simulated clock."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from tests.workloads.conftest import RANK_PATH  # puts the programs' own modules on the path
from trainmark.spec import length as lengths
from trainmark.spec import suite as suites
from trainmark.testing import noise

assert RANK_PATH
from trainmark_length import CAPPED, ENOUGH, LEAST_WARM_UP_STEPS, WARM_UP_STEPS, Length, Measured  # noqa: E402

# The machine that `quick` was sized on, two cores: seconds of a step, and the steps of the recipe.
STEP = {"resnet50": 0.18, "gpt2": 0.17, "llama": 0.14, "bert": 0.18, "mnist": 0.0105}
RECIPE = {"resnet50": 64, "gpt2": 70, "llama": 86, "bert": 66, "mnist": 1050}
# The first step of a process, in such steps.
FIRST = {"resnet50": 4.7, "gpt2": 1.5, "llama": 1.8, "bert": 1.5, "mnist": 4.0}
# Start of a process; evaluation of a recipe that was finished; counting of operations and what the agent does; a matrix
# product is timed, and the agent waits, for about so long on any machine.
START, EVALUATION, AFTERWARDS, ANYWHERE = 3.2, 0.45, 0.45, 1.6
# No machine starts a process faster than this, or makes a step of Python in less.
LEAST_START, LEAST_STEP = 0.5, 2e-4
WITHIN = suites.load(suites.find("quick")).suite.within or 0.0
BY_TIME = Length(**msgspec.to_builtins(lengths.Length(most=lengths.SHARE_OF_RUN * WITHIN)))


@dataclass
class Round:
    steps: int
    # After the warm-up that is left out.
    measured_steps: int
    measured_seconds: float
    seconds: float
    looks: int
    capped: bool

    @property
    def counts(self) -> bool:
        return self.measured_steps >= lengths.STEPS_MEASURED and self.measured_seconds >= lengths.SECONDS_MEASURED


def train(step: float, planned: int, start: float, length: Length = BY_TIME, first_step: float = 0.0) -> Round:
    """A round on a machine whose steps take `step` seconds, the first one `first_step` more."""
    looks, made, measured = 0, 0, Measured(length, planned, start)
    while True:
        clock = first_step + made * step if made else 0.0
        ahead = measured.steps_ahead(made, clock, clock)
        looks += 1
        if ahead in (ENOUGH, CAPPED):
            after = made - (WARM_UP_STEPS if clock / made < 1 else LEAST_WARM_UP_STEPS)
            return Round(made, after, after * step, start + clock, looks, ahead == CAPPED)
        assert ahead > 0
        made += ahead


def quick(speed: float) -> tuple[float, dict[str, Round]]:
    """The suite on a machine `speed` times as fast as this one: seconds in all, and a round of each case."""
    suite = suites.load(suites.find("quick")).suite
    start = max(LEAST_START, START / speed)
    total, found = 0.0, {}
    for block in (1, 2, 3):
        for case in suite.cases:
            name, repeat = case.split(":")[0], int(case.split(":")[-1].partition("@")[0])
            if repeat < block:
                continue
            step = max(LEAST_STEP, STEP[name] / speed)
            one = train(step, RECIPE[name], start, first_step=(FIRST[name] - 1) * step)
            afterwards = (AFTERWARDS + EVALUATION * (one.steps >= RECIPE[name])) / speed + ANYWHERE
            if name in found and total + one.seconds + afterwards > WITHIN:
                continue
            total, found[name] = total + one.seconds + afterwards, one
    return total, found


@pytest.mark.parametrize("speed", [0.6, 1.0, 3.0, 10.0, 100.0, 1000.0])
def test_quick_counts_on_machines_of_any_speed_within_five_minutes(speed: float) -> None:
    total, rounds = quick(speed)
    assert total <= 300
    for name, one in rounds.items():
        assert one.counts and not one.capped, f"{name} at {speed}: {one}"
        assert one.steps >= RECIPE[name], "the steps that the band judges"
        assert one.looks <= 16, "looks are cheap, but few is cheaper"


@pytest.mark.parametrize("speed", [0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
def test_on_slow_machines_the_cap_takes_steps_and_every_figure_still_counts(speed: float) -> None:
    """Not all of them have 100 steps, which is said; none is so short that it is not to be relied on."""
    total, rounds = quick(speed)
    assert total <= 300 and set(rounds) == set(STEP)
    dice = np.random.default_rng(3)
    for name, one in rounds.items():
        assert one.measured_seconds >= lengths.SECONDS_MEASURED, f"{name} at {speed}: {one}"
        # The clock of a window starts with the end of the first step.
        scored = noise.scored(STEP[name] / speed * np.exp(dice.normal(0, 0.05, one.steps - 1)))
        short = [flag for flag in scored.flags if flag.reason.code == "window-too-short"]
        assert not any(flag.severity == "severe" for flag in scored.flags), f"{name} at {speed}: {scored.flags}"
        assert one.capped or not short
        assert scored.value("throughput") == pytest.approx(speed / STEP[name], rel=0.06)


def test_a_slow_start_takes_nothing_from_a_fast_machine() -> None:
    compiled = train(0.01, 66, start=30.0, first_step=200.0)
    assert compiled.counts and not compiled.capped


def test_asked_seconds_are_measured_and_a_long_recipe_need_not_be_finished() -> None:
    asked = Length(100, 60.0, 135.0, whole=False)
    one = train(0.2, 30_000, start=5.0, length=asked)
    assert one.measured_seconds >= 60 and one.seconds < 90 and not one.capped


def test_a_pace_that_changes_is_noticed() -> None:
    """Steps that become ten times slower do not make the round ten times longer."""
    made, clock, measured = 0, 0.0, Measured(BY_TIME, 1050, 3.0)
    while (ahead := measured.steps_ahead(made, clock, clock)) > 0:
        for _ in range(ahead):
            clock += 0.005 if made < 300 else 0.5
            made += 1
    assert ahead == CAPPED and clock < 600


@pytest.mark.parametrize(
    ("preset", "changed", "seconds", "expected"),
    [
        ("quick", [], None, lengths.Length()),
        ("quick", ["steps"], None, None),
        ("smoke", [], None, None),
        ("full", [], 30.0, lengths.Length(seconds=30.0, whole=False)),
        ("quick", ["steps"], 30.0, lengths.Length(seconds=30.0)),
    ],
)
def test_which_cases_run_by_time(
    preset: str, changed: list[str], seconds: float | None, expected: lengths.Length | None
) -> None:
    from trainmark.spec import workload

    mnist = workload.read(workload.BUILT_IN / "mnist").workload
    assert lengths.settle(mnist, preset, changed, seconds, None, mnist.deadlines) == expected


@pytest.mark.parametrize("speed", [0.2, 0.3, 0.6])
def test_a_case_alone_has_more_time_and_counts_on_slower_machines(speed: float) -> None:
    alone = Length(**msgspec.to_builtins(lengths.Length()))
    one = train(STEP["gpt2"] / speed, RECIPE["gpt2"], START / speed, alone)
    assert one.counts and one.seconds <= lengths.MOST_SECONDS
