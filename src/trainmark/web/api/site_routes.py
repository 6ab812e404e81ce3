"""Sites, hosts and devices that jobs may use, and templates to make jobs of."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import delete, get, post, put
from litestar.params import Parameter

from trainmark.launch import doctor
from trainmark.launch.protocol import Quota, launcher_of
from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, GroupName, asker_of
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import (
    acceptance,
    audit,
    clusters,
    database,
    host_history,
    host_states,
    hosts,
    sites,
    templates,
)
from trainmark.web.service.acceptance import LastAcceptance
from trainmark.web.service.clusters import AskedCluster, MadeCluster
from trainmark.web.service.host_history import HostDetail, Reading
from trainmark.web.service.host_states import HostState, Kind
from trainmark.web.service.hosts import DeviceKind, Host
from trainmark.web.service.records import JobDetail, JobSpec, Name, Template, UserName
from trainmark.web.service.sites import SiteInfo

Limit = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
HostName = Annotated[str, Parameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z", max_length=255)]
ResourceName = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9/:_-]{0,63}\Z")]


class PutTemplate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    spec: JobSpec
    shared: bool = False


@get("/sites", **rules(Access.READ))
def list_sites(server: Server) -> list[SiteInfo]:
    """Where jobs may run."""
    return [sites.info(server.home, server.rules, name) for name in sites.names(server.home)]


@get("/sites/{name:str}/check", **rules(Access.ADMIN))
def check_one_site(server: Server, name: GroupName) -> list[dict[str, Any]]:
    """Whether a site can be used: what `trainmark doctor` finds."""
    return [msgspec.to_builtins(one) for one in doctor.look(sites.load(server.home, name))]


@post("/sites/{name:str}/slurm", **rules(Access.ADMIN), status_code=200)
def slurm_init(request: Asked, server: Server, name: GroupName, data: AskedCluster) -> MadeCluster:
    """Look at making a Slurm cluster of a site's hosts or, with `apply`, make it: what `trainmark slurm init` does.
    Answers when every node is idle."""
    return clusters.slurm_init(server, asker_of(request), name, data, address_of(request.scope))


class PutQuota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """None: no limit."""

    account: Name
    user: Annotated[str, msgspec.Meta(pattern=r"^([a-z_][a-z0-9_.-]{0,31})?\Z")] = ""
    max_jobs: Limit | None = None
    max_submitted: Limit | None = None
    max_minutes: Limit | None = None
    resources: dict[ResourceName, Limit] = {}


@get("/sites/{name:str}/quotas", **rules(Access.ADMIN))
def list_quotas(server: Server, name: GroupName) -> list[Quota]:
    """What the accounts of a Slurm site may use."""
    site = sites.load(server.home, name)
    return launcher_of(site).quotas(site)


@put("/sites/{name:str}/quotas", **rules(Access.ADMIN))
def put_quota(request: Asked, server: Server, name: GroupName, data: PutQuota) -> Quota:
    """Set what an account of a Slurm site, or one user of it, may use."""
    site = sites.load(server.home, name)
    wanted = Quota(**msgspec.structs.asdict(data))
    made = launcher_of(site).put_quota(site, wanted)
    with database.writing(server.engine) as connection:
        target = f"{name} {wanted.account} {wanted.user}".strip()
        audit.note(connection, asker_of(request).name, "quota.put", target, address_of(request.scope))
    return made


@get("/hosts", **rules(Access.READ))
def list_hosts(request: Asked, server: Server) -> list[Host]:
    """Hosts of all sites, and what holds them now."""
    return hosts.listed(server, asker_of(request))


@get("/hosts/{name:str}", **rules(Access.READ))
def get_host(request: Asked, server: Server, name: HostName) -> HostDetail:
    """One host: what it measures now, its jobs, and how fast it was."""
    return host_history.detail(server, asker_of(request), name)


@get("/readings", **rules(Access.READ))
def list_readings() -> dict[str, Reading]:
    """What hosts that are in use measured last: load, memory, temperature, power."""
    return host_history.readings()


@post("/sites/{name:str}/accept", **rules(Access.ADMIN))
def accept_site(request: Asked, server: Server, name: GroupName) -> JobDetail:
    """Queue `trainmark accept` of a site: which of its nodes and links are slower than the others."""
    return acceptance.submit(server, asker_of(request), name, address_of(request.scope))


@get("/sites/{name:str}/acceptance", **rules(Access.READ))
def last_acceptance(request: Asked, server: Server, name: GroupName) -> LastAcceptance:
    """What the newest `accept` of a site found."""
    return acceptance.last(server, asker_of(request), name)


class PutDrain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`until`: seconds since 1970; None: until an admin ends it."""

    why: Annotated[str, msgspec.Meta(max_length=200)] = ""
    until: Moment | None = None


class PutReserve(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`users`: those whose jobs start there meanwhile."""

    users: Annotated[list[UserName], msgspec.Meta(min_length=1, max_length=1000)]
    until: Moment | None = None
    why: Annotated[str, msgspec.Meta(max_length=200)] = ""


@put("/hosts/{name:str}/drain", **rules(Access.ADMIN))
def drain_host(request: Asked, server: Server, name: HostName, data: PutDrain) -> HostState:
    """Keep new jobs from a host; those that run there go on."""
    return _keep(request, server, name, "drain", data.why, data.until, [])


@put("/hosts/{name:str}/reserve", **rules(Access.ADMIN))
def reserve_host(request: Asked, server: Server, name: HostName, data: PutReserve) -> HostState:
    """Keep a host for some users."""
    return _keep(request, server, name, "reserve", data.why, data.until, data.users)


def _keep(
    request: Asked, server: Server, name: str, kind: Kind, why: str, until: float | None, users: list[str]
) -> HostState:
    asker, address = asker_of(request), address_of(request.scope)
    hosts.need(server, asker, name)
    with database.writing(server.engine) as connection:
        return host_states.put(connection, asker, name, kind, why, until, users, address)


@delete("/hosts/{name:str}/drain", **rules(Access.ADMIN))
def undrain_host(request: Asked, server: Server, name: HostName) -> None:
    """Let jobs start on a host again."""
    with database.writing(server.engine) as connection:
        host_states.remove(connection, asker_of(request), name, "drain", address_of(request.scope))


@delete("/hosts/{name:str}/reserve", **rules(Access.ADMIN))
def unreserve_host(request: Asked, server: Server, name: HostName) -> None:
    """End the reservation of a host."""
    with database.writing(server.engine) as connection:
        host_states.remove(connection, asker_of(request), name, "reserve", address_of(request.scope))


@get("/devices", **rules(Access.READ))
def list_devices(request: Asked, server: Server) -> list[DeviceKind]:
    """Devices of each site: how many there are, and how many are free."""
    return hosts.devices(server, asker_of(request))


@get("/templates", **rules(Access.READ))
def list_templates(request: Asked, server: Server) -> list[Template]:
    """One's own templates, and those that are shared."""
    with database.reading(server.engine) as connection:
        return templates.listed(connection, asker_of(request))


@put("/templates/{name:str}", **rules(Access.SUBMIT))
def put_template(request: Asked, server: Server, name: GroupName, data: PutTemplate) -> Template:
    """Keep a template, or replace one's own of this name."""
    with database.writing(server.engine) as connection:
        return templates.put(connection, asker_of(request), name, data.spec, data.shared)


@delete("/templates/{name:str}", **rules(Access.SUBMIT))
def remove_template(request: Asked, server: Server, name: GroupName) -> None:
    """Remove one's own template."""
    with database.writing(server.engine) as connection:
        templates.remove(connection, asker_of(request), name)


ROUTES = [
    list_sites,
    check_one_site,
    list_quotas,
    put_quota,
    slurm_init,
    list_hosts,
    get_host,
    list_readings,
    accept_site,
    last_acceptance,
    drain_host,
    undrain_host,
    reserve_host,
    unreserve_host,
    list_devices,
    list_templates,
    put_template,
    remove_template,
]
