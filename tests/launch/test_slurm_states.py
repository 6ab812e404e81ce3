"""What Slurm says and what it means, on recorded outputs; each file names its source in its first line."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmark.i18n.speaker import say
from trainmark.launch.slurm.states import ended, memory_kill, parse_sacct, parse_squeue, waiting_for
from trainmark.store.state import CANCELLED_KIND

OUTPUTS = Path(__file__).with_name("slurm_outputs")


def looks(name: str) -> list[str]:
    """The outputs in a file: one, or several with blank lines between them."""
    text = (OUTPUTS / name).read_text()
    assert text.startswith("# "), f"{name} names no source"
    return text.partition("\n")[2].split("\n\n")


def test_an_array_waits_while_one_of_its_tasks_does() -> None:
    jobs = parse_squeue(looks("squeue-array.txt")[0])
    assert {number: job.state for number, job in jobs.items()} == {"50": "PENDING", "51": "PENDING", "52": "PENDING"}
    assert say(waiting_for(jobs["51"].reason)) == "the nodes it wants are busy (Resources)"
    assert waiting_for(jobs["52"].reason).arguments["why"]["code"] == "slurm-waits-job-held-user"
    later = parse_squeue(looks("squeue-array-end.txt")[0])
    assert (later["50"].state, later["51"].state, later["52"].over) == ("COMPLETED", "RUNNING", True)
    told = parse_sacct(looks("sacct-array.txt")[0])
    assert [life.state for life in told["50"]] == ["COMPLETED"], "tasks are not lives"


def test_a_heterogeneous_job_is_one_job() -> None:
    assert parse_squeue(looks("squeue-hetjob.txt")[0])["58"].waiting
    assert [life.state for life in parse_sacct(looks("sacct-hetjob.txt")[0])["58"]] == ["COMPLETED"]


def test_a_preempted_job_is_not_over_but_back() -> None:
    states = [parse_squeue(text)["24"] for text in looks("squeue-preempted.txt")]
    assert [job.state for job in states] == ["RUNNING", "COMPLETING", "COMPLETING", "PENDING"]
    assert [job.over for job in states] == [False] * 4, "COMPLETING is not over"
    lives = [[life.state for life in parse_sacct(text)["24"]] for text in looks("sacct-preempted.txt")]
    assert lives == [["PENDING"], ["PREEMPTED"], ["PREEMPTED", "PENDING"], ["PREEMPTED", "CANCELLED"]]


@pytest.mark.parametrize(
    ("job", "life", "state", "words"),
    [
        ("14", 0, "CANCELLED", "it was cancelled"),
        ("26", 0, "CANCELLED", "cancelled by user 0"),
        ("31", 0, "PREEMPTED", "put back into the queue"),
        ("34", 0, "LOST", "a node failed (it had node[1-2])"),
        ("34", 1, "CANCELLED", "cancelled by user 0"),
        ("38", 0, "TIMEOUT", "time limit"),
    ],
)
def test_why_a_job_ended(job: str, life: int, state: str, words: str) -> None:
    found = ended(parse_sacct(looks("sacct-ends.txt")[0])[job][life])
    assert found.state == state and words in say(found.reason) and f"job {job}" in say(found.reason)


def test_what_somebody_cancelled_is_not_tried_again() -> None:
    """A node that failed, a time limit or a preemption is not somebody's will."""
    for job, life, will in (("14", 0, True), ("26", 0, True), ("31", 0, False), ("34", 0, False), ("38", 0, False)):
        found = ended(parse_sacct(looks("sacct-ends.txt")[0])[job][life])
        assert ((found.failure or {}).get("kind") == CANCELLED_KIND) is will, found


def test_out_of_memory() -> None:
    found = ended(parse_sacct(looks("sacct-memory.txt")[0])["701"][0])
    assert found.state == "FAILED" and found.failure is not None and found.failure["kind"] == "oom"
    said = (
        # As recorded from slurmstepd 22.05.8 in the lab.
        "slurmstepd: error: StepId=16.0 exceeded memory limit (353550336 > 314572800), being killed",
        # From github.com/jdblischak/smk-simple-slurm/issues/29.
        "slurmstepd: error: Detected 1 oom_kill event in StepId=65138579.batch. Some of the step tasks have been OOM "
        "Killed.",
    )
    for line in said:
        assert memory_kill(["srun: something", line]) == line
    assert memory_kill(["srun: error: node1: task 0: Killed"]) is None


def test_words_cut_short_and_words_unknown() -> None:
    assert parse_sacct("9|CANCELLED+|0:15|a|b|n1|None\n")["9"][0].state == "CANCELLED"
    assert parse_sacct("9|OUT_OF_ME+|0:125|a|b|n1|None\n")["9"][0].state == "OUT_OF_MEMORY"
    strange = parse_squeue("9|VANISHED|None|N/A|n1\nnot a line\n")["9"]
    assert strange.over and "state VANISHED" in say(ended(strange).reason)
    assert say(waiting_for("QOSGrpGRES")) == "a limit of the account or QoS is reached (QOSGrpGRES)"
    assert say(waiting_for("(Something new)")) == "it waits: (Something new)"
    assert parse_squeue("") == {} and parse_sacct("sacct: error: no\n") == {}
