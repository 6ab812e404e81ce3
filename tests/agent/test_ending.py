"""How a failed round is described, and the last lines that are shown."""

from __future__ import annotations

import pytest

from trainmark.agent.ending import Ending, FailedRank, blame, tidy

from .harness import words


def judged(ended: FailedRank, *lines: str, oom: int = 0, host: int = 0) -> Ending:
    return blame([ended], lambda rank: list(lines), oom, host)


@pytest.mark.parametrize(("ended", "lines", "oom", "kind", "reason"), [
    (FailedRank(1, 3, None), [], 0, "exit", "rank 1 exited with code 3"),
    (FailedRank(0, None, 11), [], 0, "signal", "rank 0 was killed by signal 11 (SIGSEGV)"),
    (FailedRank(0, None, 9), [], 2, "oom",
     "out of memory: rank 0 was killed, while the kernel killed 2 processes of this job for memory"),
    (FailedRank(0, None, 9), [], 0, "signal", "rank 0 was killed by signal 9 (SIGKILL)"),
    (FailedRank(0, 1, None), ["ValueError"], 2, "exit", "rank 0 exited with code 1"),
    (FailedRank(0, 1, None), ["DataLoader worker (pid 7) is killed by signal: Killed."], 1, "oom",
     "out of memory: rank 0 exited with code 1, while the kernel killed 1 processes of this job for memory"),
    (FailedRank(0, 1, None), ["torch.OutOfMemoryError: CUDA out of memory."], 0, "oom",
     "out of memory: rank 0 exited with code 1 and its log says: torch.OutOfMemoryError: CUDA out of memory."),
    (FailedRank(0, 1, None), ["OSError: [Errno 28] No space left on device"], 0, "disk",
     "the disk is full: rank 0 exited with code 1 and its log says: OSError: [Errno 28] No space left on device"),
    (FailedRank(0, 0, None, mute=True), ["out of memory"], 1, "exit", "rank 0 ended without speaking to the probe"),
])  # fmt: skip
def test_one_failed_rank(ended: FailedRank, lines: list[str], oom: int, kind: str, reason: str) -> None:
    found = judged(ended, *lines, oom=oom)
    assert (found.state, found.kind, words([found.reason])) == ("FAILED", kind, [reason])


def test_a_count_of_the_host_does_not_make_a_kill_one_for_memory() -> None:
    """Somebody's `kill -9`, while something else on the host ran out of memory."""
    found = judged(FailedRank(0, None, 9), host=2)
    assert (found.kind, words([found.reason])) == (
        "signal",
        ["rank 0 was killed by signal 9 (SIGKILL); meanwhile the kernel killed 2 processes of this host for memory, of "
         "which this may be one"],
    )  # fmt: skip
    assert judged(FailedRank(0, 1, None), "ValueError", host=2).kind == "exit"


def test_the_first_of_many_unless_it_only_lost_a_peer() -> None:
    logs = {0: ["Connection reset by peer"], 1: ["KeyError: 'x'"], 2: ["KeyError: 'y'"]}
    failures = [FailedRank(rank, 1, None) for rank in logs]
    assert blame(failures, logs.__getitem__, 0, 0).rank == 1
    assert blame(failures[1:], logs.__getitem__, 0, 0).rank == 1
    assert blame(failures[:1], logs.__getitem__, 0, 0).rank == 0
    assert blame(failures[:1] * 2, logs.__getitem__, 0, 0).rank == 0


def test_logs_are_shown_as_they_looked() -> None:
    text = "\x1b[31mred\x1b[0m\n 10%|#  |\r 50%|## |\r100%|###|\r\n\n\ufffdend"
    assert tidy(text) == ["red", "100%|###|", "\ufffdend"]
    assert tidy("half a line\nwhole", whole=False) == ["whole"]
    assert tidy("\n".join(map(str, range(50)))) == [str(number) for number in range(30, 50)]


def test_success_has_no_first_failure() -> None:
    assert Ending("SUCCEEDED", {}).first_failure([]) is None
