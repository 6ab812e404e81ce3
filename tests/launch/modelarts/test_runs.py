"""Whole runs on an emulated training service: good ones, and what may go wrong with calls, jobs and controllers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli
from tests.launch.modelarts.conftest import site_path
from trainmark.emulate.modelarts.answers import Answer
from trainmark.emulate.modelarts.faults import Faults
from trainmark.emulate.modelarts.jobs import ENDED
from trainmark.emulate.modelarts.server import Emulator, Options
from trainmark.emulate.modelarts.signatures import Signed
from trainmark.emulate.modelarts.site_file import BUCKET, write

pytestmark = pytest.mark.cloud

PROGRAM = """
import os, sys, time
import trainmark_probe as probe

mode = probe.config()["params"]["mode"]
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], mode, os.environ.get("FROM_SCRIPT"), flush=True)
probe.init(unit="things")
probe.init_end()
probe.train_start()
for step in range({"long": 1000, "longer": 4000}.get(mode, 5)):
    time.sleep(0.05)
    probe.step(8, loss=1.0 / (step + 1))
probe.train_end()
probe.finish()
"""
CASE = "thing:none:cpu:2:2:1"


@pytest.fixture
def suite(make_workload: Callable[..., Path], make_suite: Callable[..., Path]) -> Callable[..., str]:
    def make(mode: str = "good", retries: int = 0) -> str:
        make_workload(PROGRAM)
        return str(make_suite(f"  - '{CASE}@mode={mode}'", extra=f"retries: {retries}"))

    return make


def jobs_of(emulator: Emulator) -> list[str]:
    return [job.phase for job in emulator.jobs.all()]


def states(run: Path) -> list[str]:
    """How the attempts of a run ended, by its journal."""
    records = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    return [record["state"] for record in records if record["k"] == "ended"]


def processes(emulator: Emulator) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if str(emulator.folder).encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def test_a_run_of_two_nodes_comes_home(emulator: Emulator, cli: Cli, suite: Callable[..., str], tmp_path: Path) -> None:
    script = tmp_path / "prepare.sh"
    script.write_text("export FROM_SCRIPT=exported\n")
    site = site_path(emulator, prepare={"script": str(script)}, parameters={"config_path": "boost.yaml"})
    out = cli("run", suite(), "--site", str(site)).stdout
    assert "emulated" in out, "figures of an emulated service must say so"
    assert jobs_of(emulator) == ["Completed"]
    (job,) = emulator.jobs.all()
    parameters = {one["name"]: one["value"] for one in job.record["algorithm"]["parameters"]}
    assert parameters["batch"] == "8" and parameters["config_path"] == "boost.yaml"
    run = cli.runs / cli.run_id()
    logs = sorted(run.glob("thing*/round1/attempt1/*/rank*.out.log"))
    assert [log.read_text().split()[:4] for log in logs] == [["rank", str(rank), "of", "4"] for rank in range(4)]
    assert all("exported" in log.read_text() for log in logs)
    assert "ended: SUCCEEDED" in cli("logs", cli.run_id(), "--jobs", code=None).stdout or list(
        run.glob("modelarts/*/*.log")
    )
    left = [one.key for one in emulator.objects.below(BUCKET, "output/")]
    assert left == [], "what is home is not kept in the store"
    report = cli("report", cli.run_id(), "--json").stdout
    assert '"emulated"' in report


def test_nothing_of_a_run_holds_a_secret(
    emulator: Emulator, cli: Cli, suite: Callable[..., str], tmp_path: Path
) -> None:
    site = site_path(emulator)
    run = cli.start("run", suite("long"), "--site", str(site), "--log-level", "debug")
    secret = emulator.keys.secret_key.encode()
    wait_for(lambda: "Running" in jobs_of(emulator) and len(processes(emulator)) > 4)
    for pid in [str(run.pid), *processes(emulator)]:
        for name in ("cmdline", "environ"):
            assert secret not in Path(f"/proc/{pid}/{name}").read_bytes()
    cli("stop", code=None)
    out, err = run.communicate(timeout=60)
    assert secret.decode() not in out + err
    cli("report", code=None)
    places = [tmp_path, emulator.folder / "jobs", emulator.folder / "objects"]
    files = [file for place in places for file in place.rglob("*") if file.is_file()]
    assert len(files) > 20 and not [file for file in files if secret in file.read_bytes()]


def wait_for(done: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def test_stop_leaves_no_process_and_no_job(emulator: Emulator, cli: Cli, suite: Callable[..., str]) -> None:
    run = cli.start("run", suite("long"), "--site", str(site_path(emulator)))
    wait_for(lambda: "Running" in jobs_of(emulator) and len(processes(emulator)) > 4)
    cli("stop")
    assert jobs_of(emulator) == ["Terminated"], "stop returns only when the service says that the job has ended"
    assert processes(emulator) == []
    assert run.wait(timeout=60) == 130
    run.communicate()


def test_frozen_agents_are_lost(emulator: Emulator, cli: Cli, suite: Callable[..., str]) -> None:
    """Though the service is asked seldom, as it usually is, and calls the job running."""
    run = cli.start("run", suite("longer"), "--site", str(site_path(emulator, poll_seconds=3, lost_seconds=30)))
    seen: set[bytes] = set()

    def heard() -> bool:
        seen.update(file.read_bytes() for file in cli.runs.glob("*/*/round1/attempt1/noderank0/status.json"))
        return len(seen) > 3

    wait_for(heard, 120)
    for pid in processes(emulator):
        os.kill(int(pid), signal.SIGSTOP)
    assert run.wait(timeout=120) == 1
    assert "no sign of life for" in run.communicate()[0] and states(cli.runs / cli.run_id()) == ["LOST"]
    wait_for(lambda: processes(emulator) == [] and jobs_of(emulator) == ["Terminated"])


def test_calls_that_fail_and_connections_that_break_make_no_second_job(
    emulate: Callable[..., Emulator], cli: Cli, suite: Callable[..., str]
) -> None:
    emulator = emulate(Faults(fail={503: 0.1}, drop=0.05, seed=3))
    cli("run", suite(), "--site", str(site_path(emulator, call_seconds=5)))
    assert emulator.dice.failed > 3 and emulator.dice.dropped > 0, "nothing went wrong: the test tested nothing"
    assert jobs_of(emulator) == ["Completed"]
    assert states(cli.runs / cli.run_id()) == ["SUCCEEDED"]


def test_throttling_is_waited_out(emulate: Callable[..., Emulator], cli: Cli, suite: Callable[..., str]) -> None:
    emulator = emulate(Faults(fail={429: 0.2}, seed=5))
    cli("run", suite(), "--site", str(site_path(emulator)))
    assert emulator.dice.failed > 3 and jobs_of(emulator) == ["Completed"]


def test_a_lost_answer_makes_no_second_job(
    emulate: Callable[..., Emulator], cli: Cli, suite: Callable[..., str]
) -> None:
    emulator = emulate(Faults(lose_creates=1))
    cli("run", suite(), "--site", str(site_path(emulator)))
    assert jobs_of(emulator) == ["Completed"] and states(cli.runs / cli.run_id()) == ["SUCCEEDED"]


def test_a_rank_whose_file_is_missing_fails_the_round(
    emulate: Callable[..., Emulator], cli: Cli, suite: Callable[..., str]
) -> None:
    emulator = emulate(Faults(hide="node1/events.jsonl"))
    out = cli("run", suite(), "--site", str(site_path(emulator)), code=1).stdout
    assert "files of ranks are missing" in " ".join(out.split()) and "events.jsonl" in out
    assert states(cli.runs / cli.run_id()) == ["FAILED"]


def test_a_result_that_is_missing_fails_the_round(
    emulate: Callable[..., Emulator], cli: Cli, suite: Callable[..., str]
) -> None:
    emulator = emulate(Faults(hide="node1/result.json"))
    out = cli("run", suite(), "--site", str(site_path(emulator)), code=1).stdout
    assert "result of worker-1 is missing" in " ".join(out.split())


def test_a_lost_node_is_named(emulate: Callable[..., Emulator], cli: Cli, suite: Callable[..., str]) -> None:
    emulator = emulate(Faults(lose_node=(1, 3.0)))
    out = cli("run", suite("long"), "--site", str(site_path(emulator)), code=1).stdout
    assert states(cli.runs / cli.run_id()) == ["LOST"]
    assert "lost worker-1" in " ".join(out.split())


WAITING = PROGRAM.replace(
    "probe.train_start()",
    """probe.train_start()
print("waiting", flush=True)
while not os.path.exists(os.environ["GO"]):
    time.sleep(0.05)""",
)


def test_logs_of_all_ranks_and_workers_come_home_while_the_job_runs(
    emulator: Emulator, cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path], tmp_path: Path
) -> None:
    """Ranks wait for a file that is made only when their logs are seen here: whoever brought them at the end would
    never end."""
    make_workload(WAITING)
    go = tmp_path / "go"
    site = str(site_path(emulator, top={"env": {"GO": str(go)}}))
    run = cli.start("run", str(make_suite(f"  - '{CASE}'")), "--site", site)

    def told() -> bool:
        ranks = [log.read_text() for log in cli.runs.glob("*/thing*/round1/attempt1/*/rank*.out.log")]
        workers = [log.read_text() for log in cli.runs.glob("*/modelarts/*/worker-*.log")]
        return sum("waiting" in text for text in ranks) == 4 and len(workers) == 2

    wait_for(told)
    assert jobs_of(emulator) == ["Running"]
    go.touch()
    assert run.wait(timeout=60) == 0, run.communicate()
    run.communicate()


def test_single_servers_train_alone(emulator: Emulator, cli: Cli, suite: Callable[..., str]) -> None:
    out = cli("run", suite(), "--site", str(site_path(emulator, single_server=True))).stdout
    report = cli("export", "aisbench", "-o", str(cli.folder / "out")).stdout
    found = re.search(r"throughput_list:\[([\d., ]+)\] average:([\d.]+)", report)
    assert found is not None and len(found[1].split(",")) == 2, "one entry for each server"
    (file,) = (cli.folder / "out").rglob("train_result_info.json")
    assert json.loads(file.read_text())["throughput_ratio"] == found[2], "single servers report their mean"
    run = cli.runs / cli.run_id()
    logs = sorted(run.glob("thing*/round1/attempt1/*/rank*.out.log"))
    assert [log.read_text().split()[:4] for log in logs] == [["rank", str(rank % 2), "of", "2"] for rank in range(4)]
    assert "each alone" in " ".join(out.split())
    # The case has the name of a joint one; whoever compares them is told.
    cli("run", suite(), "--site", str(site_path(emulator)))
    assert "each alone" in " ".join(cli("compare", run.name, cli.run_id(), code=None).stdout.split())


def test_torchrun_makes_one_agent_of_many_processes(emulator: Emulator, cli: Cli, suite: Callable[..., str]) -> None:
    engine = {"name": "Ascend-Powered-Engine", "version": "emulated"}
    site = site_path(emulator, engine=engine, environment={"MA_RUN_METHOD": "torchrun"})
    cli("run", suite(), "--site", str(site))
    run = cli.runs / cli.run_id()
    logs = sorted(run.glob("thing*/round1/attempt1/*/rank*.out.log"))
    assert [log.read_text().split()[:4] for log in logs] == [["rank", str(rank), "of", "4"] for rank in range(4)]


def test_data_is_used_where_it_lies(
    emulator: Emulator, cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    program = PROGRAM.replace(
        "probe.init(", "print(*sorted(os.listdir(probe.config()['data'])), flush=True)\nprobe.init("
    )
    make_workload(program)
    for name in ("train/a", "val/b", "model.ckpt"):
        emulator.objects.put(BUCKET, f"imagenet/{name}", b"x")
    layout = ["train/", "val/", "model.ckpt"]
    site = site_path(emulator, top={"data": {"images": f"obs://{BUCKET}/imagenet/"}}, data_layout=layout)
    cli("run", str(make_suite(f"  - case: {CASE}\n    data: images")), "--site", str(site))
    logs = sorted((cli.runs / cli.run_id()).glob("thing*/round1/attempt1/*/rank*.out.log"))
    assert len(logs) == 4 and all("model.ckpt train val" in log.read_text() for log in logs)


def test_a_report_has_the_same_shape_as_that_of_this_machine(
    emulator: Emulator, cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]
) -> None:
    make_workload(PROGRAM)
    suite = str(make_suite("  - thing:none:cpu:1:2:1"))
    shapes = []
    for options in ([], ["--site", str(site_path(emulator, nodes=1))]):
        cli("run", suite, *options)
        (case,) = cli.json("report", cli.run_id())["cases"]
        shapes.append((sorted(case), sorted(case["measurements"]), sorted(case["runs"][0])))
    assert shapes[0] == shapes[1]


class Watched(Emulator):
    """Calls `moment` before and after each request is answered."""

    moment: Callable[[str, str], None] = staticmethod(lambda when, what: None)

    def answer(self, request: Signed) -> Answer | None:
        what = f"{request.method} {request.path}?{request.query}"
        self.moment("before", what)
        found = super().answer(request)
        self.moment("after", what)
        return found


# Part of the request, how often it was seen, and whether the controller dies before or after it is answered.
MOMENTS = [
    *(("PUT /trainmark/code/", count, "before") for count in (1, 4)),
    *(("PUT /trainmark/output/", count, when) for count in (1, 2) for when in ("before", "after")),
    *(("POST /v2/", 1, when) for when in ("before", "after")),
    *(("/training-jobs/", count, when) for count in (1, 2, 4, 6) for when in ("before", "after")),
    ("node0/agent.json", 1, "before"),
    ("node0/events.jsonl", 1, "after"),
    ("node1/result.json", 1, "before"),
    ("node1/result.json", 1, "after"),
]


def test_there_are_twenty_moments() -> None:
    assert len(MOMENTS) == 20


@pytest.mark.parametrize(("what", "count", "when"), MOMENTS)
def test_a_controller_killed_at_any_moment_is_replaced(
    tmp_path: Path, cli: Cli, suite: Callable[..., str], what: str, count: int, when: str
) -> None:
    with Watched(tmp_path / "emulator", 0, Options(upload_seconds=0.3)) as emulator:
        write(emulator)
        process: list[subprocess.Popen[str]] = []
        seen = 0

        def moment(now: str, request: str) -> None:
            nonlocal seen
            if now == when and what in request:
                seen += 1
                if seen == count:
                    process[0].send_signal(signal.SIGKILL)

        process.append(cli.start("run", suite(retries=1), "--site", str(site_path(emulator))))
        emulator.moment = moment
        process[0].communicate(timeout=60)
        assert process[0].returncode == -signal.SIGKILL
        emulator.moment = lambda now, request: None
        cli("resume", cli.run_id())
        run = cli.runs / cli.run_id()
        assert states(run).count("SUCCEEDED") == 1
        good = [phase for phase in jobs_of(emulator) if phase == "Completed"]
        assert len(good) == 1 and all(phase in ENDED for phase in jobs_of(emulator))
        created = [attempt for attempt in run.glob("thing*/round1/attempt*") if list(attempt.glob("*/result.json"))]
        assert len(created) == 1, "one result"


def test_every_place_that_shows_its_figures_says_emulated(
    emulator: Emulator, cli: Cli, suite: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    site = str(site_path(emulator))
    for _ in range(2):
        cli("run", suite(), "--site", site)
    first, second = sorted(run.name for run in cli.runs.iterdir() if (run / "manifest.json").is_file())
    assert cli("list").stdout.count("(emulated)") == 2
    assert "the service was emulated" in cli("compare", first, second, code=None).stdout
    assert "note: the service was emulated" in cli("export", "aisbench", first, "-o", str(tmp_path / "legacy")).stdout
    assert "note: the service was emulated" in next((tmp_path / "legacy").rglob("report.log")).read_text()
    cli("key", "create")
    bundle = tmp_path / "result.tmk"
    cli("pack", first, "-o", str(bundle))
    assert "the service was emulated" in cli("verify", str(bundle), code=None).stdout
    from trainmark.trust import leaderboard, verify

    checked = verify.verify(bundle)
    rows, _ = leaderboard._entries(bundle, checked, tmp_path)
    assert [row.system.endswith(" (emulated)") for row in rows] == [True]
