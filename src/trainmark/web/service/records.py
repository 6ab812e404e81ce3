"""What the service gives and takes: the API's JSON is made of these. Input refuses keys it does not know."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trainmark.spec.notation import parse_seconds

Role = Literal["admin", "user", "viewer"]
# `read`: see what the user may see. `submit`: jobs and files. `metrics`: figures of the server. `admin`: everything
# an admin may do.
Scope = Literal["read", "submit", "metrics", "admin"]
Endpoint = Literal["tensorboard", "jupyter", "ssh"]
Visibility = Literal["private", "group", "all"]
# Of a job; users may choose less (`jobs.USERS_PRIORITY`).
MOST_PRIORITY = 1000
SCOPES: tuple[Scope, ...] = ("read", "submit", "metrics", "admin")

UserName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9._-]{0,31}\Z", max_length=32)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z", max_length=64)]
Password = Annotated[str, Meta(min_length=10, max_length=200)]
# Seconds, or a time as people write it: 90s, 15m, 2h.
Duration = (
    Annotated[float, Meta(ge=0, le=2_592_000)] | Annotated[str, Meta(pattern=r"^[0-9]{1,7}(s|m|h)\Z", max_length=8)]
)
Port = Annotated[int, Meta(ge=1024, le=65_535)]
Identifier = Annotated[int, Meta(ge=1, le=2**31 - 1)]


class Principal(msgspec.Struct, frozen=True):
    """Who asks: a user, by a session or by a token with these scopes."""

    id: int
    name: str
    role: Role
    groups: frozenset[int]
    scopes: frozenset[str]
    # None: by a token, which no browser sends by itself.
    csrf: str | None = None
    # The hash of the session, or of the token.
    session: str | None = None
    token: str | None = None

    @property
    def is_admin(self) -> bool:
        return self.role == "admin" and "admin" in self.scopes


class User(msgspec.Struct, frozen=True):
    id: int
    name: str
    role: Role
    disabled: bool
    created: float
    groups: list[str]
    # False: a link to set a password has not been used yet.
    signed_up: bool


class Group(msgspec.Struct, frozen=True):
    id: int
    name: str
    members: list[str]


class Token(msgspec.Struct, frozen=True):
    id: int
    name: str
    scopes: list[str]
    created: float
    expires: float
    used: float | None


class AuditEntry(msgspec.Struct, frozen=True):
    id: int
    at: float
    user: str
    action: str
    target: str
    address: str
    outcome: str


class JobSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for. A benchmark has a `suite`, a search for networks an `automl`, a command its text."""

    name: Name
    suite: str | dict[str, Any] | None = None
    # Shell text, run byte for byte by `bash FILE`.
    command: Annotated[str, Meta(min_length=1, max_length=200_000)] | None = None
    # An experiment: its content, or `demo`.
    automl: str | dict[str, Any] | None = None
    preset: Literal["smoke", "quick", "full"] | None = None
    set: dict[str, str | int | float | bool] = {}
    seconds: Annotated[float, Meta(gt=0, le=86400)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    env: dict[str, str] = {}
    site: Name = "local"
    device: Name = "cpu"
    nodes: Annotated[int, Meta(ge=1, le=10_000)] = 1
    # Of each node: devices that it takes, and processes that are started.
    devices: Annotated[int, Meta(ge=1, le=1024)] = 1
    processes: Annotated[int, Meta(ge=1, le=1024)] = 1
    # A command whose workers reach each other: a host file, a key and an sshd of its own. `run_on`: which workers run
    # the command; the others serve it until it ends.
    distributed: bool = False
    run_on: Literal["all", "first"] = "all"
    # How long a command's workers stay, with all that was started there, after it has ended.
    keep_open: Duration = 0.0
    # Names of the user's secrets that a command finds as files, in `$TRAINMARK_SECRETS`.
    secrets: Annotated[list[Name], Meta(max_length=100)] = []
    # Folders by the names that server.yaml gives them for the site; a command finds each at `~/mnt/NAME`.
    mounts: Annotated[list[Name], Meta(max_length=100)] = []
    # What people open beside a command, from its start on; each can be opened and closed later, too.
    endpoints: Annotated[list[Endpoint], Meta(max_length=3)] = []
    # On which a command listens, of those that server.yaml allows for the site. What it shows there can be opened, too.
    ports: Annotated[list[Port], Meta(max_length=20)] = []
    # None: a benchmark takes its hosts whole, a command its devices.
    whole_host: bool | None = None
    image: Annotated[str, Meta(max_length=300)] | None = None
    priority: Annotated[int, Meta(ge=0, le=MOST_PRIORITY)] = 100
    preemptible: bool = False
    # Of the site's own scheduler, where server.yaml allows it.
    qos: Name | None = None
    # How long it may run.
    time_limit: Duration = 86400.0
    visibility: Visibility = "private"

    @property
    def stays(self) -> float:
        """Seconds that it stays open after its end."""
        return _seconds(self.keep_open, "keep_open")

    @property
    def limit(self) -> float:
        """Seconds after which it is ended, what it stays open for included."""
        return _seconds(self.time_limit, "time_limit") + self.stays


def _seconds(value: Duration, place: str) -> float:
    return parse_seconds(value, place) if isinstance(value, str) else value


class Job(msgspec.Struct, frozen=True):
    """A job as its owner sees it. `reason`: why it is in this state, in words; `reason_code` for programs."""

    id: str
    number: int
    owner: str
    name: str
    kind: str
    site: str
    visibility: str
    state: str
    reason: str
    reason_code: str
    priority: int
    preemptible: bool
    time_limit: float
    created: float
    started: float | None
    ended: float | None
    run: str | None
    restarts: int
    slots: dict[str, list[int]]
    stopping: bool


class JobDetail(msgspec.Struct, frozen=True):
    job: Job
    spec: JobSpec


class Template(msgspec.Struct, frozen=True):
    id: int
    owner: str
    name: str
    shared: bool
    spec: JobSpec
    changed: float
