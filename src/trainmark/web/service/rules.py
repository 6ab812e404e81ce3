"""`server.yaml` in the server's folder: what users may do on each site. Without it only admins submit jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from trainmark.spec import yamlfile
from trainmark.spec.notation import parse_seconds
from trainmark.spec.yamlfile import convert


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`source` on the hosts is seen in containers as `target` (None: as `source`), where it cannot be written unless
    `write` says so. Without containers it is what the job's account makes of it."""

    source: Annotated[str, Meta(pattern="^/[^:]*$")]
    target: Annotated[str, Meta(pattern="^/[^:]*$")] | None = None
    write: bool = False


class Idle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: str = "30m"
    stop: bool = False


class SiteRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`submit`: who may run jobs there. All jobs run as the account that the server runs as (on ssh and Slurm sites, as
    the account that it logs in as), so `users` says that they are trusted with all that this account can read."""

    submit: Literal["admins", "users"] = "admins"
    # Images that jobs may name, word for word.
    images: list[str] = []
    # Qualities of service that jobs may name on a Slurm site.
    qos: list[str] = []
    # Folders of the hosts that jobs may name, by what they call them; and ports that they may listen on, `40000-49999`.
    mounts: dict[str, Mount] = {}
    ports: Annotated[str, Meta(pattern=r"^([0-9]{1,5}-[0-9]{1,5})?$")] = ""
    # A job that uses nothing of what it holds for so long is said to be idle; with `stop` it is stopped then.
    idle: Idle = Idle()
    # Of this machine: how many jobs' devices there are. None: as many as it has.
    slots: int | None = None


class Retention(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long runs of jobs are kept, and how much they may take in all; pinned ones always."""

    days: Annotated[float, Meta(gt=0)] | None = None
    gigabytes: Annotated[float, Meta(gt=0)] | None = None


class Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who tells by OpenID Connect who somebody is. `make_users`: whoever it names gets a user of `role` here; else only
    those who tied their user to it."""

    issuer: str
    client_id: str
    client_secret_file: str
    # Where browsers reach this server: the provider sends them back to `ADDRESS/api/v1/session/oidc/callback`.
    address: str
    title: str = "OpenID Connect"
    make_users: bool = False
    role: Literal["user", "viewer"] = "user"
    # The claim that a new user's name is taken from.
    name_claim: str = "preferred_username"
    # `ann@DOMAIN` becomes the user `ann`. Names of any other domain are refused: two people would have the same one.
    name_domain: str = ""


class Endpoints(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`NAME.DOMAIN` is where a browser finds what runs beside a job. Browsers know `*.localhost` as their own machine.
    For people elsewhere: a domain whose names all lead to this server, best one that it shares with nothing else."""

    domain: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?\Z")] = "jobs.localhost"


class Smtp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mail server by which users are told things. Passwords go over encrypted connections only."""

    host: str
    sender: str
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password_file: str = ""
    # Of the authority that signed its certificate, where that is not one that everybody knows.
    ca_file: str = ""

    def __post_init__(self) -> None:
        if self.user and (self.security == "none" or not self.password_file):
            raise ValueError("a user needs `password_file`, and `security: starttls` or `tls`")


class NoticeRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How users may be told that a job ended. `address`: of this server, for links. `webhooks`: the servers that they
    may name, as `https://HOST`; an address of an inner network only with `private_webhooks`."""

    address: str = ""
    smtp: Smtp | None = None
    mail_domains: list[str] = []
    webhooks: list[Annotated[str, Meta(pattern=r"^https?://[a-z0-9.-]+(:[0-9]+)?\Z")]] = []
    private_webhooks: bool = False
    webhook_ca_file: str = ""


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1] = 1
    sites: dict[str, SiteRules] = {}
    oidc: Provider | None = None
    retention: Retention | None = None
    endpoints: Endpoints = Endpoints()
    notices: NoticeRules = NoticeRules()

    def of(self, site: str) -> SiteRules:
        return self.sites.get(site, SiteRules())


def load_rules(file: Path) -> Rules:
    if not file.exists():
        return Rules()
    source = yamlfile.read(file)
    found = convert(source.content, Rules, source.where)
    for name, site in found.sites.items():
        parse_seconds(site.idle.after, str(source.where.at("sites", name, "idle", "after")))
    return found
