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
from trainmark.web.service import acceptance, audit, database, host_history, hosts, sites, templates
from trainmark.web.service.acceptance import LastAcceptance
from trainmark.web.service.host_history import HostDetail, Reading
from trainmark.web.service.hosts import DeviceKind, Host
from trainmark.web.service.records import JobDetail, JobSpec, Name, Template
from trainmark.web.service.sites import SiteInfo

HostName = Annotated[str, Parameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z", max_length=253)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]
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
    list_hosts,
    get_host,
    list_readings,
    accept_site,
    last_acceptance,
    list_devices,
    list_templates,
    put_template,
    remove_template,
]
