"""ModelArts through its official client: jobs as plain records, failures as CallFailed, repeated while they pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from trainmark import extras
from trainmark.launch.modelarts import credentials
from trainmark.launch.modelarts.calls import Caller, CallFailed
from trainmark.launch.modelarts.options import ModelArtsOptions, endpoint
from trainmark.launch.modelarts.tunnel import Tunnel

_WHAT = "launcher `modelarts`"
ENDED = ("Completed", "Failed", "Terminated", "Abnormal")
_PAGE = 50
# A job that was just asked for may not be found at once.
_LOOKS = 3


class Task(msgspec.Struct, frozen=True):
    name: str
    exit_code: int | None
    message: str


class ModelArtsJob(msgspec.Struct, frozen=True):
    """What the service says of a training job."""

    id: str
    name: str
    phase: str
    secondary: str = ""
    created: int = 0
    tasks: tuple[Task, ...] = ()
    emulated: bool = False

    @property
    def ended(self) -> bool:
        return self.phase in ENDED


class Flavor(msgspec.Struct, frozen=True):
    """How many nodes of it may be had, and the cards of each; None where the service does not tell."""

    most: int | None
    gpus: int | None = None
    npus: int | None = None

    def cards(self, vendor: str) -> int | None:
        """Cards of a vendor on one node. The service tells of NVIDIA's and of Ascend's."""
        return {"nvidia": self.gpus, "ascend": self.npus}.get(vendor)


class TrainingService:
    def __init__(self, options: ModelArtsOptions, caller: Caller, tunnel: Tunnel | None = None) -> None:
        self._options, self._call, self._tunnel = options, caller, tunnel
        self._made: Any = None

    @property
    def _sdk(self) -> Any:
        return extras.load("huaweicloudsdkmodelarts.v1", _WHAT)

    @property
    def _client(self) -> Any:
        """Without a project, the client asks IAM for the region's own."""
        if self._made is None:
            auth = extras.load("huaweicloudsdkcore.auth.credentials", _WHAT)
            config = extras.load("huaweicloudsdkcore.http.http_config", _WHAT)
            keys = credentials.load(self._options.credentials)
            found = auth.BasicCredentials(keys.access_key, keys.secret_key, self._options.project)
            found = found.with_iam_endpoint(endpoint(self._options, "iam"))
            if keys.token:
                found = found.with_security_token(keys.token)
            proxy = {}
            if self._tunnel is not None:
                proxy = {"proxy_protocol": "http", "proxy_host": self._tunnel.host, "proxy_port": self._tunnel.port}
            http = config.HttpConfig(timeout=(10.0, self._options.call_seconds), retry_times=0, **proxy)
            builder = self._sdk.ModelArtsClient.new_builder().with_http_config(http).with_credentials(found)
            address = endpoint(self._options, "modelarts")
            if self._options.project:
                self._made = builder.with_endpoint(address).build()
            else:
                regions = extras.load("huaweicloudsdkcore.region.region", _WHAT)
                self._made = builder.with_region(regions.Region(self._options.region, address)).build()
        return self._made

    # ---- calls

    def create(self, body: dict[str, Any]) -> ModelArtsJob:
        """Exactly one job of this name, also where an answer is lost: whoever is unsure looks before asking again, and
        of two that were made all the same the second is stopped."""
        name = str(body["metadata"]["name"])
        deadline, tries = self._call.deadline(), 0
        while True:
            try:
                answer = self._once(f"job {name}", lambda: self._client.create_training_job(self._creation(body)))
                made = _job(answer)
                break
            except CallFailed as error:
                if not error.passes or self._call.late(deadline):
                    raise
                self._call.sleep(self._call.pause(tries))
                found = self.find(name, sure=error.unsure)
                if found is not None:
                    made = found
                    break
                tries += 1
        if tries:
            made = self._only(name) or made
        return made

    def _creation(self, body: dict[str, Any]) -> Any:
        return self._sdk.CreateTrainingJobRequest(body=body)

    def find(self, name: str, *, sure: bool = False) -> ModelArtsJob | None:
        """The first job of exactly this name. `sure`: it may just be coming up, so it is looked for several times."""
        for look in range(_LOOKS if sure else 1):
            found = self._named(name)
            if found:
                return found[0]
            if sure:
                self._call.sleep(self._call.pause(look))
        return None

    def _only(self, name: str) -> ModelArtsJob | None:
        found = self._named(name)
        for other in found[1:]:
            self.stop(other.id)
        return found[0] if found else None

    def _named(self, name: str) -> list[ModelArtsJob]:
        sdk = self._sdk
        searched = sdk.JobSearches(
            offset=0, limit=_PAGE, order="asc", filters=[sdk.Filter(key="name", operator="like", value=[name])]
        )
        request = sdk.ListTrainingJobsRequest(body=searched)
        answer = self._ask(f"job {name}", lambda: self._client.list_training_jobs(request))
        found = [_job(one) for one in answer.items or ()]
        return sorted((job for job in found if job.name == name), key=lambda job: job.created)

    def show(self, identifier: str) -> ModelArtsJob | None:
        """None: the service has no such job any more."""
        request = self._sdk.ShowTrainingJobDetailsRequest(training_job_id=identifier)
        try:
            return _job(self._ask(f"job {identifier}", lambda: self._client.show_training_job_details(request)))
        except CallFailed as error:
            if error.status == 404:
                return None
            raise

    def stop(self, identifier: str) -> None:
        """Asks for the end of exactly this job; one that has ended is let be."""
        sdk = self._sdk
        action = sdk.JobActionType(action_type="terminate")
        request = sdk.StopTrainingJobRequest(training_job_id=identifier, body=action)
        try:
            self._ask(f"job {identifier}", lambda: self._client.stop_training_job(request))
        except CallFailed as error:
            found = None if error.passes else self.show(identifier)
            if error.passes or (found is not None and not found.ended):
                raise

    def flavors(self) -> dict[str, Flavor]:
        """The public flavors by name."""
        request = self._sdk.ShowTrainingJobFlavorsRequest()
        answer = self._ask("flavors", lambda: self._client.show_training_job_flavors(request))
        return {one.flavor_id: _flavor(one) for one in answer.flavors or ()}

    def pools(self) -> list[str]:
        answer = self._ask("pools", lambda: self._client.list_pools(self._sdk.ListPoolsRequest()))
        return [one.metadata.name for one in answer.items or ()]

    def quotas(self) -> list[tuple[str, int, int]]:
        """Resource, limit and use."""
        request = self._sdk.ShowTrainingQuotasRequest()
        answer = self._ask("quotas", lambda: self._client.show_training_quotas(request))
        return [(str(one.resource), int(one.quota or 0), int(one.used or 0)) for one in answer.quotas or ()]

    def _ask(self, what: str, call: Callable[[], Any]) -> Any:
        return self._call(lambda: self._once(what, call))

    def _once(self, what: str, call: Callable[[], Any]) -> Any:
        errors = extras.load("huaweicloudsdkcore.exceptions.exceptions", _WHAT)
        try:
            return call()
        except errors.ServiceResponseException as error:
            raise CallFailed(
                what, int(error.status_code or 500), error.error_code or "", error.error_msg or ""
            ) from None
        except (errors.SdkException, OSError) as error:
            raise CallFailed(what, 0, "", getattr(error, "error_msg", "") or str(error)) from None


def _flavor(answer: Any) -> Flavor:
    """A flavor without a record of it tells nothing; one with a record has the cards that it names, and no others."""
    known = answer.flavor_info
    if known is None:
        return Flavor(answer.max_num)
    cards = [int(part.unit_num or 0) if part is not None else 0 for part in (known.gpu, known.npu)]
    return Flavor(answer.max_num, *cards)


def _job(answer: Any) -> ModelArtsJob:
    status, metadata = answer.status, answer.metadata
    tasks = tuple(Task(one.task, one.exit_code, one.message or "") for one in status.task_statuses or ())
    emulated = (metadata.annotations or {}).get("emulated") == "true"
    made = int(metadata.create_time or 0)
    return ModelArtsJob(metadata.id, metadata.name, status.phase, status.secondary_phase or "", made, tasks, emulated)
