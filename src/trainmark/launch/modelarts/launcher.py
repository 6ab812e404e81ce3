"""ModelArts: each attempt is one training job, created exactly once and followed to its end.

Nodes and controller never meet. Plans and code go up to the object store, events and results come down from it, and
the service alone can tell a worker to end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from trainmark.errors import SiteError
from trainmark.launch import attempt as attempts
from trainmark.launch import trees
from trainmark.launch.modelarts import code as codes
from trainmark.launch.modelarts import options as modelarts_options
from trainmark.launch.modelarts import plan as modelarts_plan
from trainmark.launch.modelarts.attempt import CloudAttempt, CloudNode
from trainmark.launch.modelarts.calls import Caller, CallFailed, explained
from trainmark.launch.modelarts.code import CodeFolder
from trainmark.launch.modelarts.object_store import ObjectStore
from trainmark.launch.modelarts.options import ModelArtsOptions
from trainmark.launch.modelarts.plan import ABOUT, PLANS
from trainmark.launch.modelarts.service import TrainingService
from trainmark.launch.modelarts.transport import ObjectStoreTransport
from trainmark.launch.modelarts.tunnel import Tunnel
from trainmark.launch.protocol import AttemptSpec, Ended, Finding, How, Launcher, Request, StartedAttempt
from trainmark.launch.trees import Tree
from trainmark.plan.records import CasePlan, Plan
from trainmark.reasons import Reason, reason
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.spec.yamlfile import Location
from trainmark.store.files import read_json, write_json
from trainmark.store.rundir import LEASE, write_node_plan

RECORD = "modelarts.json"
TOP = "modelarts"
_LOOK_SECONDS = 0.1
# While an attempt is followed nobody waits long for one call: it is asked again at the next look.
_FOLLOW_SECONDS = 2.0
_GONE_SECONDS = 120.0
_NONE = "none"


class Cloud:
    """The two services of a site: for what must succeed, and for what is asked again and again anyway."""

    def __init__(self, options: ModelArtsOptions) -> None:
        self.options = options
        self._tunnel = Tunnel(options.addresses) if options.addresses else None
        patient, brief = Caller(options.retry_seconds), Caller(_FOLLOW_SECONDS)
        self.service = TrainingService(options, patient, self._tunnel)
        self.store = ObjectStore(options, patient, self._tunnel)
        self.following = TrainingService(options, brief, self._tunnel), ObjectStore(options, brief, self._tunnel)


class ModelArtsLauncher(Launcher):
    chooses_hosts = True
    options_type = ModelArtsOptions

    def __init__(self) -> None:
        self._clouds: dict[bytes, Cloud] = {}
        self._attempts: dict[str, CloudAttempt] = {}
        self._outranked: dict[str, Ended] = {}
        self._trees: dict[tuple[str, ...], Tree] = {}
        self._codes: dict[tuple[str | None, bytes], CodeFolder] = {}
        self._sent: set[tuple[str, str]] = set()

    # ---- what every launcher can do

    def configure(self, site: Site, where: Location) -> Site:
        return modelarts_options.configured(super().configure(site, where), where)

    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        from trainmark.launch.modelarts.check import findings

        options = modelarts_options.of(site)
        brief = Caller(min(20.0, options.retry_seconds))
        tunnel = Tunnel(options.addresses) if options.addresses else None
        try:
            return list(
                findings(site, plan, TrainingService(options, brief, tunnel), ObjectStore(options, brief, tunnel))
            )
        finally:
            if tunnel is not None:
                tunnel.close()

    def preview(self, plan: Plan) -> list[str]:
        return modelarts_plan.preview(plan, {case.case: self._code(case, plan.site).name for case in plan.cases})

    def allocation(self, handle: str) -> str | None:
        """Each job gets nodes of its own."""
        return handle

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        tree = trees.of_case(spec.case, self._trees)
        return modelarts_plan.render(spec, site, tree, self._code(spec.case, site).name)

    def submit(self, request: Request) -> StartedAttempt:
        about = request.nodes[0].plan[ABOUT]
        cloud = self._cloud(about["options"])
        try:
            for node in request.nodes:
                write_node_plan(node.dir, node.plan)
            if self._is_outranked(about, request.nodes[0].plan["epoch"]):
                return self._nothing(about, request)
            self._send(cloud, about, request)
            # Whoever takes over from here on looks for a job of this name.
            write_json(request.attempt_dir / RECORD, {"job": about["job"], "id": None}, durable=True)
            made = cloud.service.create(about["body"])
            write_json(request.attempt_dir / RECORD, {"job": about["job"], "id": made.id}, durable=True)
        except CallFailed as error:
            raise explained(error) from None
        except OSError as error:
            raise SiteError(f"{request.attempt_dir}: {error.strerror}") from None
        return self._follow(made.id, request.attempt_dir, request.token)

    def find(self, attempt_dir: Path, token: str) -> StartedAttempt | None:
        plans = attempts.plans_of(attempt_dir, token)
        record = read_json(attempt_dir / RECORD)
        if not plans or not isinstance(record, dict):
            return None
        identifier = record.get("id")
        if identifier is None:
            cloud = self._cloud(plans[0][1][ABOUT]["options"])
            try:
                found = cloud.service.find(str(record["job"]), sure=True)
            except CallFailed as error:
                raise explained(error) from None
            if found is None:
                return None
            identifier = found.id
            write_json(attempt_dir / RECORD, {"job": record["job"], "id": identifier}, durable=True)
        return self._follow(str(identifier), attempt_dir, token)

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        deadline = time.monotonic() + seconds
        while True:
            states = {job.handle: self._state(job) for job in jobs}
            if time.monotonic() >= deadline or any(state.state.ended for state in states.values()):
                return states
            time.sleep(_LOOK_SECONDS)

    def cancel(self, job: StartedAttempt, epoch: int, why: Reason | str, how: How) -> None:
        word = "kill" if how == "destroy" else how
        if job.handle not in self._outranked and attempts.command(job.attempt_dir, epoch, word, why):
            self._attempt(job).stop(why, destroy=how == "destroy")

    def adopt(self, job: StartedAttempt, epoch: int) -> None:
        attempts.command(job.attempt_dir, epoch, "adopt", reason("controller-took-over"))

    def collect(self, job: StartedAttempt) -> None:
        """All that came is here. What is complete here is removed there; the rest stays to be looked at."""
        if job.handle in self._outranked:
            return
        attempt = self._attempt(job)
        if attempt.whole and not modelarts_options.of_plan(attempt.nodes[0].plan[ABOUT]).keep_output:
            self._remove(attempt)

    def job_logs(self, run_dir: Path) -> list[Path]:
        return sorted((run_dir / TOP).glob("*/worker-*.log"))

    def release(self, run_dir: Path) -> list[str]:
        """No job of this run is left, not even one whose creation nobody heard of."""
        left = []
        for record in sorted(run_dir.glob(f"*/round*/attempt*/{RECORD}")):
            said = self._end(record)
            if said:
                left.append(said)
        return left

    # ---- starting

    def _cloud(self, raw: dict[str, Any]) -> Cloud:
        key = msgspec.json.encode(raw, order="sorted")
        if key not in self._clouds:
            self._clouds[key] = Cloud(msgspec.convert(raw, ModelArtsOptions))
        return self._clouds[key]

    def _code(self, case: CasePlan, site: Site) -> CodeFolder:
        """Packed once: all rounds of a run train with the same files."""
        tree, prepare = trees.of_case(case, self._trees), modelarts_options.of(site).prepare
        key = (tree.name if tree else None, msgspec.json.encode(prepare))
        if key not in self._codes:
            self._codes[key] = codes.folder_of(tree, prepare)
        return self._codes[key]

    def _send(self, cloud: Cloud, about: dict[str, Any], request: Request) -> None:
        """Code once for all rounds, then the plans of this attempt."""
        bucket, prefix = modelarts_options.split(cloud.options.code)
        place = (f"{bucket}/{prefix}", str(about["code"]))
        if place not in self._sent:
            folder = next(one for one in self._codes.values() if one.name == about["code"])
            codes.upload(cloud.store, bucket, prefix, folder)
            self._sent.add(place)
        bucket, prefix = modelarts_plan.folder_of(cloud.options, about["job"])
        for node in request.nodes:
            data = msgspec.json.encode(modelarts_plan.for_store(node.plan))
            cloud.store.put(bucket, f"{prefix}{PLANS}node{node.plan['node']}.json", data)

    def _is_outranked(self, about: dict[str, Any], epoch: int) -> bool:
        """Whether a controller that replaced this one owns the run: agents cannot look, so it is looked at here."""
        lease = read_json(Path(about["run_dir"]) / LEASE)
        known = lease.get("epoch") if isinstance(lease, dict) else None
        return isinstance(known, int) and known > epoch

    def _nothing(self, about: dict[str, Any], request: Request) -> StartedAttempt:
        handle = f"modelarts://{about['site']}/{_NONE}-{request.token[:16]}"
        self._outranked[handle] = Ended(JobState.LOST, reason("run-taken-over"))
        return StartedAttempt(handle, request.attempt_dir, request.token)

    # ---- following

    def _follow(self, identifier: str, attempt_dir: Path, token: str) -> StartedAttempt:
        plans = attempts.plans_of(attempt_dir, token)
        about = plans[0][1][ABOUT]
        cloud = self._cloud(about["options"])
        waits = reason("modelarts-waits", phase="Creating")
        job = StartedAttempt(f"modelarts://{about['site']}/{identifier}", attempt_dir, token, waits)
        if job.handle not in self._attempts:
            service, store = cloud.following
            bucket, prefix = modelarts_plan.folder_of(cloud.options, about["job"])
            nodes = [
                CloudNode(folder, plan, ObjectStoreTransport(store, bucket, f"{prefix}node{plan['node']}/", folder))
                for folder, plan in plans
            ]
            self._attempts[job.handle] = CloudAttempt(identifier, nodes, cloud.options, service, store)
        return job

    def _attempt(self, job: StartedAttempt) -> CloudAttempt:
        if job.handle not in self._attempts and self.find(job.attempt_dir, job.token) is None:
            raise SiteError(f"{job.attempt_dir}: nothing is known of {job.handle}")
        return self._attempts[job.handle]

    def _state(self, job: StartedAttempt) -> Ended:
        return self._outranked.get(job.handle) or self._attempt(job).state()

    # ---- ending

    def _remove(self, attempt: CloudAttempt) -> None:
        about = attempt.nodes[0].plan[ABOUT]
        cloud = self._cloud(about["options"])
        bucket, prefix = modelarts_plan.folder_of(cloud.options, about["job"])
        try:
            cloud.store.delete(bucket, [one.key for one in cloud.store.below(bucket, prefix)])
        except CallFailed:
            return  # it costs a little room in the store

    def _end(self, record: Path) -> str:
        """What could not be ended, in words; nothing for a job that has ended."""
        said = read_json(record)
        plans = [read_json(folder / "node.json") for folder in attempts.node_dirs(record.parent)]
        if not isinstance(said, dict) or not plans or not isinstance(plans[0], dict) or said.get("ended"):
            return ""
        service = self._cloud(plans[0][ABOUT]["options"]).service
        name, deadline = str(said.get("job")), time.monotonic() + _GONE_SECONDS
        try:
            found = service.show(str(said["id"])) if said.get("id") else service.find(name)
            while found is not None and not found.ended and time.monotonic() < deadline:
                if found.phase != "Terminating":
                    service.stop(found.id)
                time.sleep(0.5)
                found = service.show(found.id)
        except CallFailed as error:
            return f"training job {name}: {explained(error)}; look for it in the console of the service"
        if found is not None and not found.ended:
            return f"training job {found.id} has not ended within {_GONE_SECONDS:g} s; look at it in the console"
        write_json(record, {**said, "ended": True}, durable=True)
        return ""
