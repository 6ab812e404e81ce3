"""Which deadline has passed, and which rank is named."""

from __future__ import annotations

from trainmark.agent.deadlines import RankProgress, Stopping, overdue

from .harness import words

LIMITS = {"start": 10.0, "step": 5.0, "total": 100.0, "stop": 3.0}


def training(rank: int, step: int, quiet: float) -> RankProgress:
    return RankProgress(rank, events=step + 2, started=True, step=step, quiet=quiet)


def starting(rank: int, events: int, quiet: float) -> RankProgress:
    return RankProgress(rank, events, started=False, step=0, quiet=quiet)


def named(uptime: float, *seen: RankProgress, probe: bool = True) -> tuple[str, int | None] | None:
    hang = overdue(uptime, LIMITS, probe, seen)
    return (hang.kind, hang.rank) if hang else None


def test_nothing_is_late() -> None:
    assert named(9.0, starting(0, 0, 9.0), training(1, 3, 4.0)) is None
    assert named(99.0, training(0, 50, 1.0), training(1, 50, 1.0)) is None
    assert named(50.0) is None


def test_the_rank_that_got_least_far_is_named_at_the_start() -> None:
    assert named(11.0, starting(0, 2, 9.0), starting(1, 0, 11.0), starting(2, 2, 9.5)) == ("hang-start", 1)
    assert named(11.0, starting(0, 2, 9.0), starting(1, 2, 10.0)) == ("hang-start", 1)
    assert named(11.0, training(0, 1, 0.1), starting(1, 1, 10.0)) == ("hang-start", 1)


def test_training_without_a_step_counts_as_started() -> None:
    assert named(11.0, RankProgress(0, 2, started=True, step=0, quiet=1.0)) is None
    hang = overdue(20.0, LIMITS, True, [RankProgress(0, 2, started=True, step=0, quiet=9.0)])
    assert hang is not None and words([hang.reason]) == [
        "rank 0 was silent for more than 5 s before its first step ended"
    ]


def test_of_silent_ranks_the_one_with_the_fewest_steps_is_named() -> None:
    assert named(50.0, training(0, 8, 5.1), training(1, 7, 4.9), training(2, 8, 5.0)) == ("hang-step", 1)
    assert named(50.0, training(0, 8, 4.0), training(1, 8, 5.2)) == ("hang-step", 1)


def test_a_slow_rank_that_still_speaks_is_not_named() -> None:
    assert named(50.0, training(0, 8, 5.1), training(1, 3, 0.5)) == ("hang-step", 0)


def test_without_a_probe_only_the_total_counts() -> None:
    assert named(99.0, starting(0, 0, 99.0), probe=False) is None
    assert named(101.0, starting(0, 0, 99.0), probe=False) == ("total", None)
    assert named(101.0, training(0, 9, 1.0)) == ("total", None)


def test_stopping_goes_step_by_step() -> None:
    stopping = Stopping(3.0)
    assert (stopping.due(0.0), stopping.next(), stopping.begun) == (None, None, False)
    stopping.begin(10.0, 2.0)
    assert (stopping.due(11.0), stopping.next()) == (None, 12.0)
    assert [stopping.due(at) for at in (12.0, 12.5, 15.0)] == ["ask", None, "kill"]


def test_stopping_can_become_faster_but_not_slower() -> None:
    stopping = Stopping(3.0)
    stopping.begin(10.0, 2.0)
    stopping.begin(10.5)
    stopping.begin(11.0, 9.0)
    assert stopping.due(10.5) == "ask"
    stopping.hurry(11.0)
    assert stopping.due(11.0) == "kill"
