"""Emulated training jobs, asked for by the official client: they really run, and wrong ones are refused."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.emulate.conftest import modelarts_client, obs_client, wait_for_phase
from trainmark.emulate.modelarts.faults import Faults
from trainmark.emulate.modelarts.server import CREDENTIALS, Emulator
from trainmark.errors import UserError

BOOT = """
import json, os, sys, time
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
table = os.environ["RANK_TABLE_FILE"]
if os.path.isdir(table):
    table = os.path.join(table, "jobstart_hccl.json")
    seen = [json.load(open(table))["status"]]
    while seen[-1] != "completed":
        time.sleep(0.05)
        seen.append(json.load(open(table))["status"])
else:
    seen = [json.load(open(table))["status"]]
rank = os.environ.get("RANK_ID", os.environ["VC_TASK_INDEX"])
told = {name: value for name, value in os.environ.items() if name.startswith(("MA_", "VC_", "RANK_", "FROM_", "MINE"))}
told.update(data=sorted(os.listdir(options["data_url"])), epochs=options["epoch_size"], seen=sorted(set(seen)))
time.sleep(float(options["sleep"]))
json.dump(told, open(os.path.join(options["train_url"], "told_%s.json" % rank), "w"))
print("rank", rank, "is done", flush=True)
sys.exit(int(options.get("code", 0)))
"""


def test_keys_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """An emulator that was killed while it wrote them leaves none, never half of them."""
    (tmp_path / CREDENTIALS).write_bytes(b'{"access')
    with pytest.raises(UserError, match="broken"):
        Emulator(tmp_path)


def test_programs_are_not_run_from_a_folder_that_others_can_write_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="others can write to it"):
        Emulator(tmp_path)


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., Any]:
    """Puts code and data into the store, and makes the record of a job."""

    def make(emulator: Emulator, name: str = "job", sleep: float = 0.0, engine: str = "PyTorch", **more: Any) -> Any:
        from huaweicloudsdkmodelarts import v1 as sdk

        client = obs_client(emulator)
        client.createBucket("bench")
        for key, text in {
            "code/demo/boot.py": textwrap.dedent(BOOT),
            "code/demo/ma-pre-start.sh": "export FROM_PRE='of the script'\n",
            "data/train/x.bin": "x",
            "data/val/y.bin": "y",
        }.items():
            assert client.putContent("bench", key, content=text).status == 200
        parameters = {"epoch_size": "2", "sleep": str(sleep), **more}
        return sdk.Job(
            kind="job",
            metadata=sdk.JobMetadata(name=name, workspace_id="0", description="d"),
            algorithm=sdk.JobAlgorithm(
                code_dir="/bench/code/demo/",
                boot_file="/bench/code/demo/boot.py",
                parameters=[sdk.Parameters(name=key, value=value) for key, value in parameters.items()],
                inputs=[
                    sdk.Input(
                        name="data_url", remote=sdk.InputDataInfo(obs=sdk.InputDataInfoObs(obs_url="/bench/data/"))
                    )
                ],
                outputs=[
                    sdk.Output(name="train_url", remote=sdk.Remote(obs=sdk.RemoteObs(obs_url=f"/bench/out/{name}/")))
                ],
                engine=sdk.JobEngine(engine_name=engine, engine_version="any"),
                environments={"MINE": "1"},
            ),
            spec=sdk.Spec(
                resource=sdk.SpecResource(flavor_id="emulated.2card", node_count=2),
                log_export_path=sdk.LogExportPath(obs_url=f"/bench/log/{name}/"),
            ),
        )

    return make


def create(emulator: Emulator, job: Any) -> Any:
    from huaweicloudsdkmodelarts.v1 import CreateTrainingJobRequest

    return modelarts_client(emulator).create_training_job(CreateTrainingJobRequest(body=job))


def told(emulator: Emulator, name: str) -> list[dict[str, Any]]:
    import json

    client = obs_client(emulator)
    keys = [one.key for one in client.listObjects("bench", prefix=f"out/{name}/").body.contents]
    return [json.loads(client.getObject("bench", key, loadStreamInMemory=True).body.buffer) for key in keys]


def processes_of(job: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if f"ma-job-{job}".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(("engine", "processes"), [("PyTorch", 2), ("Ascend-Powered-Engine", 4)])
def test_a_job_really_runs_with_the_documented_environment(
    emulator: Emulator, ask: Callable[..., Any], engine: str, processes: int
) -> None:
    answer = create(emulator, ask(emulator, engine=engine))
    assert answer.status_code == 201 and answer.metadata.annotations["emulated"] == "true"
    status = wait_for_phase(modelarts_client(emulator), answer.metadata.id, "Completed", "Failed")
    assert [(one.task, one.exit_code) for one in status.task_statuses] == [("worker-0", 0), ("worker-1", 0)]
    found = told(emulator, "job")
    assert len(found) == processes
    first = found[0]
    assert (first["VC_TASK_INDEX"], first["MA_NUM_HOSTS"], first["VC_WORKER_NUM"]) == ("0", "2", "2")
    assert len(first["VC_WORKER_HOSTS"].split(",")) == 2 and first["MA_CURRENT_IP"] == "127.0.0.1"
    assert (first["FROM_PRE"], first["MINE"], first["epochs"]) == ("of the script", "1", "2")
    assert first["data"] == ["train", "val"]
    if engine == "PyTorch":
        assert first["seen"] == ["completed", "initializing"], "a rank table is not complete at once"
    else:
        assert sorted(one["RANK_ID"] for one in found) == ["0", "1", "2", "3"]
    client = obs_client(emulator)
    logs = [one.key for one in client.listObjects("bench", prefix="log/job/").body.contents]
    assert logs == [f"log/job/modelarts-job-{answer.metadata.id}-worker-{index}.log" for index in (0, 1)]
    assert b"is done" in client.getObject("bench", logs[1], loadStreamInMemory=True).body.buffer
    assert processes_of(answer.metadata.id) == []


def test_a_stop_is_obeyed_and_leaves_nothing(emulator: Emulator, ask: Callable[..., Any]) -> None:
    from huaweicloudsdkmodelarts.v1 import JobActionType, StopTrainingJobRequest

    client = modelarts_client(emulator)
    job = create(emulator, ask(emulator, sleep=600)).metadata.id
    wait_for_phase(client, job, "Running")
    request = StopTrainingJobRequest(training_job_id=job, body=JobActionType(action_type="terminate"))
    assert client.stop_training_job(request).status_code == 202
    wait_for_phase(client, job, "Terminated")
    assert processes_of(job) == []


def test_a_rank_that_fails_ends_the_job(emulator: Emulator, ask: Callable[..., Any]) -> None:
    job = create(emulator, ask(emulator, code="3")).metadata.id
    status = wait_for_phase(modelarts_client(emulator), job, "Completed", "Failed")
    assert status.phase == "Failed" and 3 in [one.exit_code for one in status.task_statuses]


def test_a_lost_node_makes_the_job_abnormal(emulate: Callable[..., Emulator], ask: Callable[..., Any]) -> None:
    emulator = emulate(Faults(lose_node=(1, 0.3)))
    job = create(emulator, ask(emulator, sleep=600)).metadata.id
    status = wait_for_phase(modelarts_client(emulator), job, "Abnormal")
    assert status.secondary_phase == "Lost" and processes_of(job) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: setattr(body.spec.resource, "flavor_id", "no.such"), "no flavor"),
        (lambda body: setattr(body.spec.resource, "node_count", 99), "nodes"),
        (lambda body: setattr(body.metadata, "name", "a name"), "name"),
        (lambda body: setattr(body.algorithm, "code_dir", "/bench/code/demo"), "end with /"),
        (lambda body: setattr(body.algorithm, "boot_file", "/bench/code/demo/none.py"), "boot file"),
        (lambda body: setattr(body.algorithm, "code_dir", "/elsewhere/code/"), "bucket"),
        (lambda body: setattr(body.algorithm, "environments", {"MA_HOME": "/"}), "MA_"),
    ],
)
def test_a_wrong_job_is_refused(
    emulator: Emulator, ask: Callable[..., Any], change: Callable[[Any], None], said: str
) -> None:
    from huaweicloudsdkcore.exceptions.exceptions import ClientRequestException

    job = ask(emulator)
    change(job)
    with pytest.raises(ClientRequestException) as refused:
        create(emulator, job)
    assert refused.value.status_code == 400 and said in refused.value.error_msg
    assert emulator.jobs.all() == []


def test_an_unknown_field_is_refused(emulator: Emulator) -> None:
    from trainmark.emulate.modelarts import job_fields
    from trainmark.emulate.modelarts.answers import ApiError

    with pytest.raises(ApiError, match=r"body.spec.resource.nodes: the service has no such field"):
        job_fields.check({"spec": {"resource": {"nodes": 2}}}, "Job")
    with pytest.raises(ApiError, match="must be int"):
        job_fields.check({"spec": {"resource": {"node_count": "2"}}}, "Job")


def test_a_wrong_key_and_a_quota(emulate: Callable[..., Emulator], ask: Callable[..., Any]) -> None:
    from huaweicloudsdkcore.exceptions.exceptions import ClientRequestException
    from huaweicloudsdkmodelarts.v1 import CreateTrainingJobRequest

    emulator = emulate(quota=1)
    with pytest.raises(ClientRequestException) as refused:
        create(emulator, ask(emulator))
    assert refused.value.status_code == 403 and "quota" in refused.value.error_msg
    with pytest.raises(ClientRequestException) as refused:
        modelarts_client(emulator, "wrong").create_training_job(CreateTrainingJobRequest(body=ask(emulator)))
    assert (refused.value.status_code, refused.value.error_code) == (401, "APIG.0301")


def test_jobs_are_searched_by_name_and_wait_for_room(emulate: Callable[..., Emulator], ask: Callable[..., Any]) -> None:
    from huaweicloudsdkmodelarts import v1 as sdk

    emulator = emulate(nodes=2)
    client = modelarts_client(emulator)
    first = create(emulator, ask(emulator, "one", sleep=600)).metadata.id
    wait_for_phase(client, first, "Running")
    second = create(emulator, ask(emulator, "two")).metadata.id
    wait_for_phase(client, second, "Pending")
    asked = sdk.JobSearches(offset=0, limit=1, filters=[sdk.Filter(key="name", operator="like", value=["tw"])])
    found = client.list_training_jobs(sdk.ListTrainingJobsRequest(body=asked))
    assert (found.total, [one.metadata.id for one in found.items]) == (1, [second])
    client.stop_training_job(
        sdk.StopTrainingJobRequest(training_job_id=first, body=sdk.JobActionType(action_type="terminate"))
    )
    wait_for_phase(client, second, "Completed")
    preview = client.show_training_job_logs_preview(
        sdk.ShowTrainingJobLogsPreviewRequest(training_job_id=second, task_id="worker-0")
    )
    assert "is done" in preview.content


def wheel(folder: Path) -> Path:
    """A package of one line."""
    import zipfile

    path = folder / "mine_word-1.0-py3-none-any.whl"
    about = "mine_word-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mine_word.py", "WORD = 'from the package'\n")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: mine-word\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.mark.parametrize("there", [True, False])
def test_requirements_are_installed_before_the_boot_file(
    there: bool, emulator: Emulator, ask: Callable[..., Any], tmp_path: Path
) -> None:
    job = ask(emulator)
    client, package = obs_client(emulator), wheel(tmp_path) if there else tmp_path / "nowhere-1.0-py3-none-any.whl"
    client.putContent("bench", "code/demo/pip-requirements.txt", content=f"--no-index\n{package}\n")
    client.putContent("bench", "code/demo/boot.py", content="import mine_word; print(mine_word.WORD, flush=True)\n")
    made = create(emulator, job).metadata.id
    ended = wait_for_phase(modelarts_client(emulator), made, "Completed" if there else "Failed")
    log = client.getObject("bench", f"log/job/modelarts-job-{made}-worker-0.log", loadStreamInMemory=True).body.buffer
    assert (b"from the package" in log) == there
    if not there:
        assert "pip-requirements.txt: pip ended with code" in str(ended.task_statuses[0].message)


def test_slow_answers_come_late(emulate: Callable[..., Emulator]) -> None:
    import http.client

    emulator = emulate(Faults(slow=2.0))
    host, port = emulator.url.removeprefix("http://").split(":")
    impatient = http.client.HTTPConnection(host, int(port), timeout=0.3)
    impatient.request("HEAD", "/?apiversion")
    with pytest.raises(TimeoutError):
        impatient.getresponse()
    impatient.close()
    patient = http.client.HTTPConnection(host, int(port), timeout=60)
    patient.request("HEAD", "/?apiversion")
    assert patient.getresponse().status == 200
    patient.close()
