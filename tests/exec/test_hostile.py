"""Commands that fail, stay silent or behave badly: each has the right state, and a reason with its cure."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import Cli
from tests.exec.conftest import Exec
from trainmark.i18n.speaker import say

SILENT = "no training step was seen because "


def test_a_failing_command_is_the_failure_of_the_case(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "-c", "print('so long'); raise SystemExit(3)", code=1)
    assert found.state == ("FAILED", "the command exited with code 3")
    assert found.case["failure"]["last_lines"] == ["so long"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["python", "-c", "print('nothing')"], "the Python that ran never imported torch; name the lines it prints"),
        (["python", "-I", "-c", "pass"], "Python was started with -I, which keeps trainmark's hooks out"),
        (["python", "-uE", "-c", "pass"], "Python was started with -uE"),
        (["/bin/true"], "no Python of the command could be watched: it is no Python program"),
        (["env", "PYTHONPATH=/nowhere", "python", "-c", "pass"], "or PYTHONPATH was replaced on the way"),
    ],
)
def test_silence_is_explained(trainmark_exec: Exec, command: list[str], reason: str) -> None:
    found = trainmark_exec("--", *command, code=1)
    assert found.case["state"] == "FAILED" and say(found.case["reason"]).startswith(SILENT)
    assert reason in say(found.case["reason"]) and "--pattern" in say(found.case["reason"])
    assert found.case["measurements"] == {}


def test_a_program_may_speak_for_itself(trainmark_exec: Exec) -> None:
    script = trainmark_exec.script("own.py", "import trainmark_probe as p\nfor _ in range(5): p.step(3)\np.finish()\n")
    found = trainmark_exec("--env", "RANK=2", "--", "python", script)
    assert found.counts(2) == (5, 15) and found.case["state"] == "SUCCEEDED"


def test_torch_without_training_is_explained(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "-c", "import torch; torch.ones(2).sum()", code=1)
    assert say(found.case["reason"]).startswith(SILENT + "torch was imported and nothing was trained with it")


def test_another_python_without_its_variables_is_still_measured(
    trainmark_exec: Exec, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainmark_exec.script("sitecustomize.py", "import sys\nsys.own_sitecustomize_ran = True\n")
    monkeypatch.setenv("PYTHONPATH", str(trainmark_exec.folder))
    found = trainmark_exec("--", "python", "wild.py")
    assert found.counts(0) == (14, 200)


@pytest.mark.slow
def test_spawned_ranks_are_told_apart(trainmark_exec: Exec) -> None:
    found = trainmark_exec("--", "python", "spawned.py")
    assert {rank: found.counts(rank) for rank in found.ranks} == {0: (3, 24), 1: (3, 24)}
    assert all(found.ranks[rank][-1]["k"] == "FINISHED" for rank in (0, 1))


@pytest.mark.slow
def test_trainings_one_after_another_are_told(trainmark_exec: Exec) -> None:
    """The second process goes on as the rank of the first one."""
    found = trainmark_exec("--", "python", "every.py", "--one-rank", "folds.py", "folds.py")
    assert found.counts(0) == (30, 240)
    assert "rank 0 was 2 processes one after another; the time between them counts" in [
        say(one) for one in found.case["notes"]
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--", "no-such-program"], "the program no-such-program is not on PATH"),
        (["--", "./every.py"], "./every.py does not exist or cannot be executed"),
        (["--batch", "0", "--", "true"], "batch: found 0, allowed is a whole number from 1"),
        (["--cwd", "nowhere", "--", "true"], "--cwd nowhere: no such folder"),
        (["--env", "A", "--", "true"], "--env A: expected KEY=VALUE"),
        (["--env", "API_KEY=x", "--", "true"], "looks like a secret"),
        (["--pattern", "megatronn", "--", "true"], "no pattern `megatronn`"),
        (["--pattern", "(?P<step>", "--", "true"], "is no regular expression"),
        (["--pattern", r"(?P<stp>\d+)", "--", "true"], "group `stp` (did you mean `step`?)"),
        (["--name", "a:b", "--", "true"], "allowed are letters, digits"),
    ],
)
def test_slips_of_the_pen_start_nothing(cli: Cli, words: list[str], message: str) -> None:
    done = cli("exec", *words, code=2)
    assert message in done.stderr
    assert not cli.runs.exists()


def test_a_command_that_hangs_is_ended(trainmark_exec: Exec, nothing_left: None) -> None:
    found = trainmark_exec("--timeout", "2", "--", sys.executable, "-c", "import time; time.sleep(600)", code=1)
    assert found.state == ("TIMEOUT", "the round did not end within 2 s")
