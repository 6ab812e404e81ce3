"""Whole rounds with real processes: how they end well, and every way they end badly."""

from __future__ import annotations

import json
import os
import signal

import pytest

from .harness import Node, until

GOOD = """
    begin()
    for number in range(1, 11):
        step(number, n=4, loss=1.0 / number)
    say("TRAIN_END")
    print("hello from", rank)
"""


def test_two_ranks_end_well(node: Node, containment: str) -> None:
    argv = node.script(GOOD)
    result = node.ranks(argv, argv).run(containment=containment)
    assert (result["state"], result["first_failure"]) == ("SUCCEEDED", None)
    assert result["containment"]["used"] == containment
    assert [(rank["exit"], rank["steps"], rank["samples"]) for rank in result["ranks"]] == [(0, 10, 40)] * 2
    assert all(rank["cpu_s"] > 0 and rank["max_rss_bytes"] > 0 for rank in result["ranks"])
    events = node.events()
    assert result["events"] == len(events) == 26
    for rank in (0, 1):
        assert [event["seq"] for event in events if event["rank"] == rank] == list(range(13))
        assert node.output(rank) == f"hello from {rank}\n"
    assert not (node.dir / "spool").exists()
    assert json.loads((node.dir / "config.json").read_text()) == {"seed": 1}
    assert json.loads((node.dir / "facts.json").read_text())["cpu"]["threads"] >= 1
    claim = json.loads((node.dir / "agent.json").read_text())
    assert node.agent is not None and claim["pid"] == node.agent.pid


def test_status_and_samples_of_a_longer_round(node: Node) -> None:
    argv = node.script(
        """
        begin()
        for number in range(1, 30):
            step(number, n=8)
            time.sleep(0.1)
        """
    )
    node.ranks(argv).start(sample_seconds=0.5)
    status = until(lambda: (found := node.status()).get("rate") and found)
    assert status["state"] == "RUNNING"
    assert status["ranks"][0]["step"] * 8 == status["ranks"][0]["samples"]
    assert status["rate"] > 0
    assert node.wait() == 0
    result = node.result()
    lines = [json.loads(line) for line in (node.dir / "samples.jsonl").read_text().splitlines()]
    assert lines[0]["units"]["cpu"] == "fraction"
    assert result["samples"] == len(lines) - 1 >= 4
    assert all(0 <= line["cpu"] <= 1 and line["mem_used"] > 0 for line in lines[1:])
    assert lines[2]["ranks"]["0"]["rss"] > 0


@pytest.mark.parametrize(("text", "kind", "code", "number", "reason"), [
    ("begin(); print('boom'); raise SystemExit(3)", "exit", 3, None, "rank 0 exited with code 3"),
    ("begin(); os.kill(os.getpid(), 9)", "signal", None, 9, "rank 0 was killed by signal 9 (SIGKILL)"),
    ("pass", "exit", 0, None, "rank 0 ended without speaking to the probe"),
])  # fmt: skip
def test_how_a_rank_failed_is_said(
    node: Node, text: str, kind: str, code: int | None, number: int | None, reason: str
) -> None:
    result = node.ranks(node.script(text)).run()
    assert (result["state"], result["reason"]) == ("FAILED", reason)
    failure = result["first_failure"]
    assert (failure["rank"], failure["kind"], failure["exit"], failure["signal"]) == (0, kind, code, number)
    assert failure["last_lines"] == (["boom"] if code == 3 else [])


def test_one_failing_rank_ends_the_others(node: Node) -> None:
    waiting = node.script("begin()\ntime.sleep(600)", "waiting.py")
    result = node.ranks(waiting, node.script("begin()\nraise SystemExit(3)")).run()
    assert (result["reason"], result["first_failure"]["rank"]) == ("rank 1 exited with code 3", 1)
    assert result["ranks"][0]["signal"] == signal.SIGTERM


def test_the_rank_that_lost_its_peer_is_not_blamed(node: Node) -> None:
    victim = node.script("begin()\nraise OSError('Connection closed by peer [127.0.0.1]')", "victim.py")
    cause = node.script("begin()\ntime.sleep(0.3)\nraise ValueError('bad batch')", "cause.py")
    result = node.ranks(victim, cause).run()
    assert result["reason"] == "rank 1 exited with code 1"
    assert result["first_failure"]["last_lines"][-1] == "ValueError: bad batch"


def test_hang_before_the_first_step(node: Node) -> None:
    early = node.script("say('INIT_START')\ntime.sleep(600)", "early.py")
    mute = node.script("time.sleep(600)", "mute.py")
    result = node.ranks(early, mute).run(deadlines={"start": 1.0})
    assert result["state"] == "TIMEOUT"
    assert result["reason"] == "rank 1 did not reach its first step within 1 s (it never spoke to the probe)"
    assert (result["first_failure"]["kind"], result["first_failure"]["rank"]) == ("hang-start", 1)


def test_hang_in_a_step_shows_the_stacks(node: Node, containment: str) -> None:
    healthy = node.script("begin()\nstep(1)\nstep(2)\ntime.sleep(600)", "healthy.py")
    hung = node.script(
        """
        import faulthandler, signal
        faulthandler.register(signal.SIGUSR1)
        def stuck_here():
            time.sleep(600)
        begin()
        step(1)
        stuck_here()
        """
    )
    result = node.ranks(healthy, hung).run(containment=containment, deadlines={"step": 0.5})
    assert (result["state"], result["first_failure"]["kind"]) == ("TIMEOUT", "hang-step")
    assert result["reason"] == "rank 1 was silent for more than 0.5 s after step 1"
    assert any("in stuck_here" in line for line in result["first_failure"]["last_lines"])


def test_total_deadline(node: Node) -> None:
    result = node.ranks(["/bin/sleep", "600"]).run(probe=False, deadlines={"total": 1.0})
    assert (result["state"], result["first_failure"]["kind"]) == ("TIMEOUT", "total")
    assert result["first_failure"]["rank"] is None


def test_a_rank_that_ignores_sigterm_is_killed(node: Node) -> None:
    argv = ["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]
    result = node.ranks(argv).run(probe=False, deadlines={"total": 0.5, "stop": 0.5})
    assert result["state"] == "TIMEOUT"
    assert result["ranks"][0]["signal"] == signal.SIGKILL


@pytest.mark.parametrize("loss", ["NaN", "Infinity", "-Infinity"])
def test_a_loss_that_is_no_number_makes_the_round_invalid(node: Node, loss: str) -> None:
    argv = node.script(
        f"begin()\nstep(1, loss=0.5)\nsay('LOSS', steps=[2, 3], values=[0.4, {loss!r}])\nstep(4, loss={loss!r})"
    )
    result = node.ranks(argv).run()
    assert (result["state"], result["reason"]) == ("INVALID", f"loss is {loss} at step 3 on rank 0")
    assert result["first_failure"]["kind"] == "nonfinite"


def test_a_torn_last_event_is_dropped_with_a_warning(node: Node) -> None:
    argv = node.script('begin()\nstep(1)\nos.write(spool, b\'{"k":"STEP_END","ra\')')
    result = node.ranks(argv).run()
    assert result["state"] == "SUCCEEDED"
    assert result["warnings"] == ["rank 0: its last event was cut off and is dropped"]
    assert result["events"] == len(node.events()) == 3


def test_a_spool_elsewhere(node: Node) -> None:
    elsewhere = node.root / "fast"
    result = node.ranks(node.script(GOOD)).run(spool=str(elsewhere))
    assert result["events"] == 13
    assert list(elsewhere.iterdir()) == []
    assert not os.path.lexists(node.dir / "spool")


@pytest.mark.parametrize(("argv", "words"), [
    (["/no/such/program"], "/no/such/program does not exist"),
    (["no-such-program-at-all"], "no-such-program-at-all is not on PATH"),
    (["/etc/passwd"], "/etc/passwd is not executable"),
])  # fmt: skip
def test_a_program_that_cannot_be_started(node: Node, containment: str, argv: list[str], words: str) -> None:
    result = node.ranks(["/bin/sleep", "600"], argv).run(probe=False, containment=containment)
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "spawn")
    assert (result["first_failure"]["rank"], words in result["reason"]) == (1, True)


def test_a_file_that_is_no_program(node: Node) -> None:
    fake = node.root / "fake"
    fake.write_bytes(b"\x00\x01nothing to run")
    fake.chmod(0o755)
    result = node.ranks([str(fake)]).run(probe=False)
    assert result["first_failure"]["kind"] == "spawn"
    assert "Exec format error" in result["reason"] and str(fake) in result["reason"]


def test_environment_and_arguments(node: Node) -> None:
    text = (
        "import json, os, sys; print(json.dumps(dict(env=dict(os.environ), argv=sys.argv[1:],"
        " sid=os.getsid(0) == os.getpid(), stdin=os.readlink('/proc/self/fd/0'),"
        " fds=sorted(os.listdir('/proc/self/fd')))))"
    )
    node.ranks([node.python, "-c", text, "--port=%PORT1%"])
    node.plan["ranks"][0]["env"] = {"MASTER_PORT": "%PORT0%", "WHO": "rank"}
    os.environ["UNWANTED_BY_PLAN"] = "x"
    try:
        result = node.run(
            probe=False,
            ports=[0, 0],
            env={"WHO": "plan", "PYTHONPATH": "/user/path"},
            unset=["UNWANTED_BY_PLAN"],
            device={"vendor": "test", "visible": "TEST_VISIBLE"},
        )
    finally:
        del os.environ["UNWANTED_BY_PLAN"]
    seen = json.loads(node.output())
    assert seen["argv"] == [f"--port={result['ports'][1]}"]
    assert seen["env"]["MASTER_PORT"] == str(result["ports"][0])
    assert (seen["env"]["WHO"], seen["env"]["TEST_VISIBLE"]) == ("rank", "0")
    assert "UNWANTED_BY_PLAN" not in seen["env"]
    assert seen["env"]["PYTHONPATH"] == f"{node.root / 'lib'}:/user/path"
    assert (seen["env"]["TRAINMARK_TOKEN"], seen["env"]["TRAINMARK_RANK"]) == (node.token, "0")
    assert (seen["sid"], seen["stdin"]) == (True, "/dev/null")
    assert seen["fds"] == ["0", "1", "2", "3"]  # the third is the listing itself


def test_more_ranks_than_cores(node: Node) -> None:
    count = len(os.sched_getaffinity(0)) + 2
    argv = node.script(GOOD)
    result = node.ranks(*[argv] * count).run()
    assert result["state"] == "SUCCEEDED"
    assert f"{count} ranks share {count - 2} cores" in result["warnings"]


def test_ranks_get_cores_of_their_own(node: Node) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("needs two cores")
    argv = [node.python, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"]
    result = node.ranks(argv, argv).run(probe=False)
    shown = [json.loads(node.output(rank)) for rank in (0, 1)]
    assert shown == result["settings"]["cpus"]
    assert not set(shown[0]) & set(shown[1])
    assert result["settings"]["threads"] == len(cpus) // 2


def test_memory_limit_of_the_process(node: Node) -> None:
    argv = node.script(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29))
        begin()
        held = bytearray(1 << 31)
        """
    )
    result = node.ranks(argv).run()
    assert (result["state"], result["first_failure"]["kind"]) == ("FAILED", "oom")
    assert result["reason"] == "out of memory: rank 0 exited with code 1 and its log says: MemoryError"
