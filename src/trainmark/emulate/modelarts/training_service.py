"""ModelArts v2 over HTTP: training jobs, searches, logs, flavors, engines and quotas; and IAM's list of projects."""

from __future__ import annotations

import json
import re
from typing import Any

from trainmark.emulate.modelarts import job_fields
from trainmark.emulate.modelarts.answers import Answer, ApiError, of_json
from trainmark.emulate.modelarts.jobs import ENDED, EmulatedJob, Jobs
from trainmark.emulate.modelarts.objects import Objects, StoreError
from trainmark.emulate.modelarts.signatures import Signed
from trainmark.emulate.modelarts.worker import Start, place_of

PROJECT = "emulated0000000000000000000000000"
POOL = "emulated-pool"
# Names of flavors → cards. Those of the pool are the ones that dedicated pools really have.
FLAVORS = {f"emulated.{cards}card": cards for cards in (1, 2, 4, 8)}
POOL_FLAVORS = {f"modelarts.pool.visual.{size}xlarge": cards for size, cards in (("", 1), ("2", 2), ("4", 4), ("8", 8))}
# Engine → how its boot file is started.
ENGINES = {"Ascend-Powered-Engine": "card", "PyTorch": "node"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}$")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_PREVIEW = 5 << 20


class TrainingService:
    def __init__(self, jobs: Jobs, objects: Objects) -> None:
        self._jobs, self._objects = jobs, objects

    def answer(self, request: Signed) -> Answer:
        """May raise ApiError."""
        if request.path.rstrip("/") == "/v3/projects":
            return of_json(200, {"projects": [{"id": PROJECT, "name": "emulated"}]})
        project, _, rest = request.path.removeprefix("/v2/").strip("/").partition("/")
        if project != PROJECT:
            raise ApiError(403, "ModelArts.0010", f"project {project} is not one of this account's")
        body = _body(request)
        parts = rest.split("/")
        if parts[0] == "training-jobs" and len(parts) > 1:
            return self._of_job(request.method, parts[1], parts[2:], body)
        calls = {
            ("POST", "training-jobs"): self._create,
            ("POST", "training-job-searches"): self._search,
            ("GET", "training-job-flavors"): self._flavors,
            ("GET", "training-job-engines"): self._engines,
            ("GET", "training-quotas"): self._quotas,
            ("GET", "pools"): self._pools,
        }
        call = calls.get((request.method, rest))
        if call is None:
            raise ApiError(404, "APIG.0101", "The API does not exist or has not been published")
        return call(body)

    # ---- all jobs

    def _create(self, body: Any) -> Answer:
        job_fields.check(body, "Job")
        job = self._checked(body)
        if self._jobs.quota and self._jobs.in_use() + job.nodes > self._jobs.quota:
            raise ApiError(403, "ModelArts.2790", f"the quota of {self._jobs.quota} nodes is used up")
        self._jobs.create(job)
        return of_json(201, job.record)

    def _checked(self, body: Any) -> EmulatedJob:
        metadata, algorithm, spec = (body.get(part) or {} for part in ("metadata", "algorithm", "spec"))
        if body.get("kind") != "job" or not _NAME.match(str(metadata.get("name", ""))):
            raise ApiError(400, "ModelArts.2700", "kind must be job, and its name 1 to 64 letters, digits, _ and -")
        resource = spec.get("resource") or {}
        flavor, pool = resource.get("flavor_id"), resource.get("pool_id")
        known = POOL_FLAVORS if pool else FLAVORS
        if pool not in (None, POOL):
            raise ApiError(400, "ModelArts.2764", f"there is no resource pool {pool}")
        if flavor not in known:
            raise ApiError(400, "ModelArts.2763", f"there is no flavor {flavor}; there are {', '.join(known)}")
        if not 1 <= (resource.get("node_count") or 1) <= self._jobs.nodes:
            raise ApiError(400, "ModelArts.2765", f"1 to {self._jobs.nodes} nodes can be had")
        start = self._start(algorithm)
        self._check_places(algorithm, spec)
        return EmulatedJob(body, known[flavor], start)

    def _start(self, algorithm: dict[str, Any]) -> Start:
        engine = algorithm.get("engine") or {}
        variables = algorithm.get("environments") or {}
        if len(variables) > 100 or any(not _VARIABLE.match(name) or name == "ENABLE_HTTPS" for name in variables):
            raise ApiError(400, "ModelArts.2780", "at most 100 variables, of letters, digits and _")
        if any(name.startswith("MA_") and name != "MA_RUN_METHOD" for name in variables):
            raise ApiError(400, "ModelArts.2780", "names that begin with MA_ are the service's own")
        if engine.get("image_url"):
            if not algorithm.get("command"):
                raise ApiError(400, "ModelArts.2781", "an image of one's own needs a command")
            return Start("node", ["bash", "-c", algorithm["command"]])
        if engine.get("engine_name") not in ENGINES or not algorithm.get("boot_file"):
            raise ApiError(400, "ModelArts.2782", f"engines are {', '.join(ENGINES)}, with a boot file; or an image")
        method = variables.get("MA_RUN_METHOD", "")
        if method not in ("", "torchrun"):
            raise ApiError(400, "ModelArts.2783", f"MA_RUN_METHOD {method} is not emulated")
        return Start(method or ENGINES[engine["engine_name"]], [])

    def _check_places(self, algorithm: dict[str, Any], spec: dict[str, Any]) -> None:
        channels = [*(algorithm.get("inputs") or ()), *(algorithm.get("outputs") or ())]
        urls = [((one.get("remote") or {}).get("obs") or {}).get("obs_url") for one in channels]
        urls.append((spec.get("log_export_path") or {}).get("obs_url"))
        code, boot = algorithm.get("code_dir"), algorithm.get("boot_file")
        for url in (code, *urls):
            if url is None:
                continue
            if not url.endswith("/"):
                raise ApiError(400, "ModelArts.2791", f"{url}: the path must end with /")
            self._objects_below(url)
        if code and not self._objects_below(code):
            raise ApiError(400, "ModelArts.2792", f"{code}: there is nothing in this folder")
        if boot and (not code or not boot.startswith(code) or not self._objects_below(boot)):
            raise ApiError(400, "ModelArts.2793", f"{boot}: the boot file must be in the code folder")

    def _objects_below(self, url: str) -> bool:
        try:
            return bool(self._objects.below(*place_of(url)))
        except StoreError as error:
            raise ApiError(400, "ModelArts.2794", f"{url}: {error}") from None

    def _search(self, body: Any) -> Answer:
        job_fields.check(body, "JobSearches")
        asked = body or {}
        found = sorted(self._jobs.all(), key=lambda job: job.record["metadata"]["create_time"])
        if asked.get("order", "desc") == "desc":
            found.reverse()
        for one in asked.get("filters") or ():
            found = [job for job in found if _matches(job, one)]
        limit, page = asked.get("limit") or 10, asked.get("offset") or 0
        if not 1 <= limit <= 50:
            raise ApiError(400, "ModelArts.0102", "limit: 1 to 50")
        items = [job.record for job in found[page * limit : (page + 1) * limit]]
        about = {"total": len(found), "count": len(items), "limit": limit, "offset": page}
        return of_json(200, {**about, "sort_by": "create_time", "order": asked.get("order", "desc"), "items": items})

    def _flavors(self, body: Any) -> Answer:
        del body
        found = [
            {
                "flavor_id": name,
                "flavor_name": f"{name} (emulated)",
                "max_num": self._jobs.nodes,
                "flavor_type": "CPU",
                "flavor_info": {"max_num": self._jobs.nodes, "cpu": {"arch": "x86", "core_num": cards}},
                "attributes": {"emulated": "true"},
            }
            for name, cards in FLAVORS.items()
        ]
        return of_json(200, {"total_count": len(found), "flavors": found})

    def _engines(self, body: Any) -> Answer:
        del body
        items = [{"engine_id": name, "engine_name": name, "engine_version": "emulated"} for name in ENGINES]
        return of_json(200, {"total": len(items), "items": items})

    def _quotas(self, body: Any) -> Answer:
        del body
        quota = {"resource": "trainNode", "quota": self._jobs.quota or -1, "used": self._jobs.in_use()}
        return of_json(200, {"quotas": [quota]})

    def _pools(self, body: Any) -> Answer:
        del body
        item = {"kind": "Pool", "apiVersion": "v2", "metadata": {"name": POOL}, "status": {"phase": "Running"}}
        return of_json(200, {"kind": "PoolList", "apiVersion": "v2", "items": [item]})

    # ---- one job

    def _of_job(self, method: str, identifier: str, rest: list[str], body: Any) -> Answer:
        job = self._jobs.get(identifier)
        if job is None:
            raise ApiError(404, "ModelArts.2710", f"there is no training job {identifier}")
        if method == "GET" and not rest:
            return of_json(200, job.record)
        if method == "DELETE" and not rest:
            if job.phase not in ENDED:
                self._jobs.stop(job)
            job.deleted = True
            return of_json(202)
        if method == "POST" and rest == ["actions"]:
            return self._act(job, body)
        if method == "GET" and len(rest) == 4 and (rest[0], rest[2], rest[3]) == ("tasks", "logs", "preview"):
            return self._preview(job, rest[1])
        raise ApiError(404, "APIG.0101", "The API does not exist or has not been published")

    def _act(self, job: EmulatedJob, body: Any) -> Answer:
        job_fields.check(body, "JobActionType")
        if (body or {}).get("action_type") != "terminate":
            raise ApiError(400, "ModelArts.0102", "action_type: terminate is the only one")
        if not self._jobs.stop(job):
            raise ApiError(400, "ModelArts.2707", f"the job is {job.phase} and cannot be stopped")
        return of_json(202, job.record)

    def _preview(self, job: EmulatedJob, task: str) -> Answer:
        if task not in job.record["status"]["tasks"] or job.log_dir is None:
            raise ApiError(404, "ModelArts.2711", f"there is no task {task}")
        path = job.log_dir / task / f"modelarts-job-{job.id}-{task}.log"
        content = path.read_bytes() if path.is_file() else b""
        shown = content[-_PREVIEW:].decode(errors="replace")
        return of_json(200, {"content": shown, "current_size": min(len(content), _PREVIEW), "full_size": len(content)})


def _body(request: Signed) -> Any:
    if not request.body:
        return None
    try:
        return json.loads(request.body)
    except ValueError:
        raise ApiError(400, "ModelArts.0101", "the body is not JSON") from None


def _matches(job: EmulatedJob, one: dict[str, Any]) -> bool:
    fields = {"name": job.name, "phase": job.phase, "id": job.id}
    value, wanted = fields.get(str(one.get("key"))), [str(text) for text in one.get("value") or ()]
    if value is None:
        raise ApiError(400, "ModelArts.0102", f"filters.key: {one.get('key')!r} is not emulated")
    operator = one.get("operator")
    if operator == "like":
        return any(text in value for text in wanted)
    if operator in ("in", "not"):
        return bool((value in wanted) == (operator == "in"))
    raise ApiError(400, "ModelArts.0102", f"filters.operator: {operator!r} is not emulated")
