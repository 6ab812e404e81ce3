"""What people open beside a job, and the public keys by which they enter it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import delete, get, post, put
from litestar.params import Parameter

from trainmark.web.api.access import Access, rules
from trainmark.web.api.account_routes import Asked, GroupName, asker_of
from trainmark.web.api.job_routes import JobName
from trainmark.web.api.middleware import address_of
from trainmark.web.server import Server
from trainmark.web.service import database, endpoints, ssh_keys
from trainmark.web.service.endpoints import EndpointInfo, Entry
from trainmark.web.service.ssh_keys import PublicKey, SshKey

EndpointName = Annotated[
    str,
    Parameter(
        pattern=r"^(tensorboard|jupyter|ssh|port-[0-9]{1,5})\Z",
        max_length=16,
        description="`tensorboard`, `jupyter`, `ssh`, or `port-NUMBER` of a port that the job names",
    ),
]


class PutKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: PublicKey


@get("/jobs/{job:str}/endpoints", **rules(Access.READ))
def list_endpoints(request: Asked, server: Server, job: JobName) -> list[EndpointInfo]:
    """What can be opened beside a job, and how it stands."""
    return endpoints.listed(server, asker_of(request), job)


@put("/jobs/{job:str}/endpoints/{endpoint:str}", **rules(Access.SUBMIT))
def open_endpoint(request: Asked, server: Server, job: JobName, endpoint: EndpointName) -> list[EndpointInfo]:
    """Start one in the job's environment, on its node."""
    return endpoints.open_one(server, asker_of(request), job, endpoint, address_of(request.scope))


@delete("/jobs/{job:str}/endpoints/{endpoint:str}", **rules(Access.SUBMIT), status_code=200)
def close_endpoint(request: Asked, server: Server, job: JobName, endpoint: EndpointName) -> list[EndpointInfo]:
    """End one, for everybody who uses it."""
    return endpoints.close_one(server, asker_of(request), job, endpoint, address_of(request.scope))


@post("/jobs/{job:str}/endpoints/{endpoint:str}/enter", **rules(Access.READ))
def enter_endpoint(request: Asked, server: Server, job: JobName, endpoint: EndpointName) -> Entry:
    """An address that opens it in one browser, once, within a minute; of ssh, a command for the asker's own key."""
    scheme = "https" if server.settings.secure else "http"
    at = f"{scheme}://{request.headers.get('host', '')}"
    return endpoints.enter(server, asker_of(request), job, endpoint, at, address_of(request.scope))


@get("/ssh-keys", **rules(Access.READ))
def list_ssh_keys(request: Asked, server: Server) -> list[SshKey]:
    """One's own public keys."""
    with database.reading(server.engine) as connection:
        return ssh_keys.listed(connection, asker_of(request))


@put("/ssh-keys/{name:str}", **rules(Access.SUBMIT))
def put_ssh_key(request: Asked, server: Server, name: GroupName, data: PutKey) -> SshKey:
    """Add a public key by which one enters one's own jobs, or replace it."""
    return ssh_keys.put(server, asker_of(request), name, data.key, address_of(request.scope))


@delete("/ssh-keys/{name:str}", **rules(Access.SUBMIT))
def remove_ssh_key(request: Asked, server: Server, name: GroupName) -> None:
    """Remove one of one's own public keys."""
    ssh_keys.remove(server, asker_of(request), name, address_of(request.scope))


ROUTES = [
    *(list_endpoints, open_endpoint, close_endpoint, enter_endpoint),
    *(list_ssh_keys, put_ssh_key, remove_ssh_key),
]
