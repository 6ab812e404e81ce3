"""Jobs from the request to the result, on this machine, through the library's own launcher."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.web.conftest import Person
from trainmark.run import lease, machine, session
from trainmark.spec.states import JobState
from trainmark.store import journal
from trainmark.web.queue.keeper import Keeper
from trainmark.web.server import Server
from trainmark.web.service import database, jobs, logs
from trainmark.web.service.records import JobSpec, Principal
from trainmark.web.service.rules import Mount, Rules, SiteRules

ADMIN = Principal(1, "admin", "admin", frozenset(), frozenset({"read", "submit", "admin"}))


def until(look: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)
    return found


def ended(admin: Person, job: str, seconds: float = 60.0) -> dict[str, Any]:
    def look() -> Any:
        found = admin.ask("GET", f"/jobs/{job}", status=200).json()["job"]
        return found if found["state"] not in ("PENDING", "RUNNING") else None

    found: dict[str, Any] = until(look, seconds)
    return found


def submit(admin: Person, **spec: Any) -> str:
    return str(admin.ask("POST", "/jobs", json={"name": "job", **spec}, status=201).json()["job"]["id"])


def test_a_command_and_a_benchmark(admin: Person, kept: Server) -> None:
    command = 'echo "hello $DLWS_JOB_ID $COLOUR"; echo made > made.txt; ln -s /etc/passwd link; exit 0'
    first = submit(admin, command=command, env={"COLOUR": "blue"})
    second = submit(admin, suite="noop:none:cpu:1:1:1", preset="smoke")
    assert ended(admin, first)["state"] == "SUCCEEDED"
    assert admin.ask("GET", f"/jobs/{first}/logs", status=200).text == f"hello {first} blue\n"
    files = admin.ask("GET", f"/jobs/{first}/files", status=200).json()
    assert [one["path"] for one in files["work"]] == ["made.txt"]
    assert admin.ask("GET", f"/jobs/{first}/files/work/made.txt", status=200).text == "made\n"
    admin.ask("GET", f"/jobs/{first}/files/work/link", status=404)
    paths = [one["path"] for one in files["run"]]
    assert "manifest.json" in paths and any(path.endswith("rank0.out.log") for path in paths)
    assert not [path for path in paths if path.endswith(("node.json", "agent.json", "control.json", "lease.json"))]
    hidden = next(path for path in paths if path.endswith("result.json")).replace("result.json", "node.json")
    admin.ask("GET", f"/jobs/{first}/files/run/{hidden}", status=404)
    assert ended(admin, second)["state"] == "SUCCEEDED"
    report = admin.ask("GET", f"/jobs/{second}/report", status=200).json()
    assert report["cases"][0]["state"] == "SUCCEEDED"
    page = admin.ask("GET", f"/jobs/{second}/report?format=html&language=zh", status=200)
    assert "sandbox" in page.headers["content-security-policy"]
    status = admin.ask("GET", f"/jobs/{second}/status", status=200).json()
    assert status["rounds"][0]["state"] == "SUCCEEDED"
    with admin.client.stream("GET", f"/api/v1/jobs/{first}/logs/stream") as stream:
        text = "".join(stream.iter_text())
    assert "event: log" in text and "event: end" in text and "hello" in text
    data = next(line for line in text.splitlines() if line.startswith('data: {"rank'))
    assert json.loads(data.removeprefix("data: "))["start"] == 0
    number = next(line for line in text.splitlines() if line.startswith("id: ")).removeprefix("id: ")
    with admin.client.stream("GET", f"/api/v1/jobs/{first}/logs/stream", headers={"last-event-id": number}) as stream:
        assert "event: log" not in "".join(stream.iter_text())


def test_failing_stopping_and_time_limits(admin: Person, kept: Server) -> None:
    kept.rules = Rules(sites={"local": SiteRules(slots=3)})
    failing = submit(admin, command="echo trouble; exit 3")
    endless = submit(admin, command="sleep 600")
    short = submit(admin, command="sleep 600", time_limit=2)
    last = submit(admin, command="true", devices=3)
    until(lambda: admin.ask("GET", f"/jobs/{endless}").json()["job"]["state"] == "RUNNING")
    waiting = admin.ask("GET", f"/jobs/{last}").json()["job"]
    assert waiting["state"] == "PENDING" and "waits" in waiting["reason"]
    assert ended(admin, failing)["state"] == "FAILED"
    assert "3" in admin.ask("GET", f"/jobs/{failing}").json()["job"]["reason"]
    assert ended(admin, short)["state"] == "TIMEOUT"
    admin.ask("POST", f"/jobs/{endless}/stop", status=202)
    stopped = ended(admin, endless)
    assert (stopped["state"], stopped["reason_code"]) == ("CANCELLED", "job-stopped")
    admin.ask("POST", f"/jobs/{endless}/stop", status=409)
    assert ended(admin, last)["state"] == "SUCCEEDED"
    assert machine.claims() == []


def test_a_preemptible_job_makes_way_and_comes_back(admin: Person, kept: Server, tmp_path: Path) -> None:
    kept.rules = Rules(sites={"local": SiteRules(slots=1)})
    mark = tmp_path / "mark"
    patient = submit(admin, command=f"echo x >> {mark}; [ $(wc -l < {mark}) -gt 1 ] || sleep 600", preemptible=True)
    until(lambda: mark.exists())
    urgent = submit(admin, command="true")
    assert ended(admin, urgent)["state"] == "SUCCEEDED"
    assert ended(admin, patient)["state"] == "SUCCEEDED"
    assert mark.read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("preemptible", "stopped", "state"),
    [(True, False, "PENDING"), (False, False, "FAILED"), (True, True, "FAILED")],
)
def test_a_job_whose_nodes_the_sites_scheduler_took(
    admin: Person, server: Server, preemptible: bool, stopped: bool, state: str
) -> None:
    """Its run ends when no retries are left; a job that may be preempted then waits for its turn again."""
    made = jobs.submit(server, ADMIN, JobSpec("taken", command="true", preemptible=preemptible), "")
    keeper = Keeper(server)
    row = keeper._active()[0]
    run = keeper._run(row, {os.uname().nodename: frozenset({0})})
    keeper._set(row, launched=time.time(), epoch=0)
    plan = msgspec.structs.replace(run.manifest().plan, retries=0)
    with contextlib.closing(journal.Journal(run.path, 1, contextlib.nullcontext)) as written:
        written.append(journal.OWNER)
        written.append(journal.ATTEMPT, case=0, round=1, attempt=1, token="t")
        written.append(journal.ENDED, case=0, round=1, attempt=1, state=JobState.PREEMPTED)
        if stopped:
            written.append(journal.STOP)
        reached = session.state_of(run, plan)
        assert reached.next_round() is None
        written.append(journal.FINISHED, state=reached.final())
    keeper._follow(keeper._active()[0])
    found = admin.ask("GET", f"/jobs/{made.job.id}", status=200).json()["job"]
    assert found["state"] == state and (found["reason_code"] == "job-requeued") is (state == "PENDING")


def test_the_queue_waits_for_runs_of_the_command_line(admin: Person, kept: Server, tmp_path: Path) -> None:
    other = tmp_path / "runs" / "by-hand"
    assert machine.try_claim(other, {os.uname().nodename: None}) == []
    job = submit(admin, command="true")
    found = until(lambda: _waits(admin, job))
    assert "by-hand" in found["reason"]
    machine.release(other)
    assert ended(admin, job)["state"] == "SUCCEEDED"


def _waits(admin: Person, job: str) -> Any:
    found = admin.ask("GET", f"/jobs/{job}").json()["job"]
    return found if found["reason_code"] == "waits-for-run" else None


def test_whoever_comes_second_does_not_drive(tmp_path: Path, admin: Person, server: Server) -> None:
    """Two controllers that were sent for the same job: the run's lease lets the first one."""
    made = jobs.submit(server, ADMIN, JobSpec("twice", command="echo once"), "")
    keeper = Keeper(server)
    keeper.look()
    for future in list(keeper._starting.values()):
        future.result(60)
    run = jobs.need_run(server, ADMIN, made.job.id)
    until(lambda: not lease.seems_alive(run.path))
    with pytest.raises(lease.Owned, match="another controller"):
        lease.take(run.path, 0)
    keeper.look()
    assert jobs.detail(server, ADMIN, made.job.id).job.state == "SUCCEEDED"


def test_logs_from_the_end_and_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "rank0.out.log"
    with file.open("wb") as out:
        out.truncate(1 << 30)  # a hole of a gigabyte
        out.seek(0, 2)
        out.write(b"\nsecond last\nlast\nno end")
    begin = time.process_time()
    assert logs.tail({0: file}, 100).endswith("second last\nlast\nno end")
    assert time.process_time() - begin < 0.5
    seen = {0: (1 << 30) + 1}
    assert [piece.text for piece in logs.following({0: file}, seen, final=False)] == ["second last\nlast\n"]
    assert [piece.text for piece in logs.following({0: file}, seen, final=True)] == ["no end"]
    assert logs.decode_seen(logs.encode_seen(seen)) == seen
    assert logs.decode_seen("x:1,2:y,-1:3,9:99999999999999999999") == {}


def test_templates_are_ones_own_unless_shared(admin: Person, person: Callable[..., Person]) -> None:
    bob = person("bob")
    spec = {"name": "t", "command": "true"}
    admin.ask("PUT", "/templates/mine", json={"spec": spec}, status=200)
    assert [one["name"] for one in bob.ask("GET", "/templates").json() if one["id"] > 0] == []
    admin.ask("PUT", "/templates/mine", json={"spec": spec, "shared": True}, status=200)
    assert [one["name"] for one in bob.ask("GET", "/templates").json() if one["id"] > 0] == ["mine"]
    bob.ask("DELETE", "/templates/mine", status=404)
    admin.ask("DELETE", "/templates/mine", status=204)


def test_the_forms_of_the_platform_come_as_templates(admin: Person) -> None:
    found = {one["name"]: one["spec"] for one in admin.ask("GET", "/templates").json()}
    assert set(found) == {
        f"{framework}-{device}-{kind}"
        for framework, device in (("mindspore", "ascend"), ("horovod", "nvidia"))
        for kind in ("distributed", "single")
    }
    both = found["horovod-nvidia-distributed"]
    assert (both["nodes"], both["devices"], both["distributed"], both["run_on"]) == (2, 8, True, "first")
    assert "horovodrun -np 16 -hostfile /home/${DLWS_USER_NAME}/ib_config" in both["command"]
    admin.ask("DELETE", "/templates/horovod-nvidia-single", status=404)


def test_ten_thousand_jobs_in_the_list(server: Server, admin: Person) -> None:
    made = submit(admin, command="true")
    with database.writing(server.engine) as connection:
        row = jobs.find(connection, ADMIN, made)
        values = {key: value for key, value in row.items() if key not in ("number", "id", "owner")}
        rows = [{**values, "id": f"{number:016x}", "state": "SUCCEEDED"} for number in range(10_000)]
        connection.execute(jobs.jobs.insert(), rows)
    begin = time.process_time()
    first = admin.ask("GET", "/jobs?limit=1000", status=200).json()
    assert len(first["jobs"]) == 1000
    second = admin.ask("GET", f"/jobs?limit=1000&before={first['next']}", status=200).json()
    assert second["jobs"][0]["number"] == first["next"] - 1
    assert time.process_time() - begin < 5.0


@pytest.mark.slow
def test_folders_and_ports_are_those_that_the_site_allows(admin: Person, kept: Server, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "here").write_text("found\n")
    kept.rules = Rules(sites={"local": SiteRules(slots=2, mounts={"data": Mount(str(shared))}, ports="40000-40100")})
    job = submit(admin, command="cat ~/mnt/data/here; sleep 600", mounts=["data"], ports=[40001])
    until(lambda: admin.ask("GET", f"/jobs/{job}").json()["job"]["run"] and "found" in text(admin, job))
    for field in ({"mounts": ["/etc"]}, {"mounts": ["etc"]}, {"ports": [40101]}, {"ports": [22]}):
        answer = admin.ask("POST", "/jobs", json={"name": "job", "command": "true", **field})
        assert answer.status_code in (400, 403), (field, answer.text)
    refused = admin.ask("POST", "/jobs", json={"name": "job", "command": "true", "ports": [40001]}, status=409)
    assert "another job" in refused.json()["detail"]
    admin.ask("POST", f"/jobs/{job}/stop", status=202)
    ended(admin, job)
    submit(admin, command="true", ports=[40001])
    (site,) = admin.ask("GET", "/sites", status=200).json()
    assert (site["mounts"], site["ports"]) == (["data"], "40000-40100")


def text(admin: Person, job: str) -> str:
    return str(admin.ask("GET", f"/jobs/{job}/logs").text)


@pytest.mark.slow
def test_times_as_people_write_them(admin: Person, kept: Server) -> None:
    job = submit(admin, command="echo done", keep_open="2h", time_limit="15m")
    found = until(lambda: (lambda one: one if one["state"] == "RUNNING" else None)(_job(admin, job)))
    assert found["time_limit"] == 2 * 3600 + 15 * 60
    until(lambda: "stay for 7200 s" in text(admin, job))
    admin.ask("POST", f"/jobs/{job}/stop", status=202)
    assert ended(admin, job)["state"] == "CANCELLED"
    for field in ({"keep_open": "8h30"}, {"keep_open": "999h"}, {"time_limit": "0s"}, {"time_limit": 0}):
        admin.ask("POST", "/jobs/plan", json={"name": "job", "command": "true", **field}, status=400)


def _job(admin: Person, job: str) -> dict[str, Any]:
    found: dict[str, Any] = admin.ask("GET", f"/jobs/{job}", status=200).json()["job"]
    return found


SMALL = {
    "schema": 1,
    "name": "small",
    "data": "synthetic",
    "image": {"size": 8, "channels": 1, "classes": 4},
    "rules": "none",
    "start": "small_cnn",
    "start_options": {"blocks": 1, "width": 4},
    "max_trials": 1,
    "max_duration": "60s",
    "training": {"batch": 8, "epochs": [1], "images": 32, "test_images": 16},
}


def test_an_experiment_names_no_files(admin: Person) -> None:
    good = {"name": "search", "automl": SMALL}
    planned = admin.ask("POST", "/jobs/plan", json=good, status=200).json()
    assert planned["cases"][0]["case"].startswith("automl_trial:")
    for key, value in (
        ("weights", "/etc/passwd"),
        ("init_models", ["/etc/passwd"]),
        ("ledger", "postgresql://elsewhere/x"),
        ("val_data", "/etc"),
        ("data", "/etc"),
        ("start", "/etc/passwd.json"),
        ("workers", 0),
    ):
        wrong = {"name": "search", "automl": {**SMALL, key: value}}
        assert key in admin.ask("POST", "/jobs/plan", json=wrong, status=400).json()["detail"]
    admin.ask("POST", "/jobs/plan", json={"name": "search", "automl": "/etc/passwd"}, status=400)
    short = admin.ask("POST", "/jobs/plan", json={**good, "time_limit": "30s"}, status=400)
    assert "time_limit" in short.json()["detail"]


@pytest.mark.slow
def test_an_experiment_is_a_job(admin: Person, kept: Server) -> None:
    job = submit(admin, automl=SMALL)
    found = ended(admin, job, 240.0)
    assert (found["state"], found["kind"]) == ("SUCCEEDED", "automl"), found
    assert "small" in admin.ask("GET", f"/jobs/{job}/report?format=html", status=200).text


def test_drained_and_reserved_hosts(admin: Person, person: Callable[..., Person], server: Server) -> None:
    server.rules = Rules(sites={"local": SiteRules(submit="users", slots=4)})
    here = os.uname().nodename
    bob = person("bob")
    admin.ask("PUT", f"/hosts/{here}/drain", json={"why": "new disk"}, status=200)
    mine, his = submit(admin, command="true"), submit(bob, command="true")
    keeper = Keeper(server)
    keeper.look()
    assert _job(admin, mine)["reason"] == f"{here} takes no jobs (admin: new disk)"
    (host,) = bob.ask("GET", "/hosts", status=200).json()
    assert host["drained"]["why"] == "new disk" and host["reserved"] is None
    admin.ask("PUT", f"/hosts/{here}/reserve", json={"users": ["bob"], "until": time.time() + 3600}, status=200)
    admin.ask("DELETE", f"/hosts/{here}/drain", status=204)
    admin.ask("DELETE", f"/hosts/{here}/drain", status=404)
    keeper.look()
    for future in list(keeper._starting.values()):
        future.result(60)
    assert _job(admin, mine)["reason"] == f"{here} is reserved for bob"
    assert _job(bob, his)["reason_code"] == "job-starting"
    admin.ask("PUT", f"/hosts/{here}/reserve", json={"users": ["bob"], "until": 5.0}, status=400)
    admin.ask("PUT", f"/hosts/{here}/reserve", json={"users": ["nobody"]}, status=400)
    admin.ask("PUT", "/hosts/elsewhere/drain", json={}, status=404)
    bob.ask("PUT", f"/hosts/{here}/drain", json={}, status=403)
    done = [one["action"] for one in admin.ask("GET", "/audit").json()]
    assert {"host.drain", "host.drain.end", "host.reserve"} <= set(done)
    until(lambda: (keeper.look(), _job(bob, his)["state"] == "SUCCEEDED")[1])
