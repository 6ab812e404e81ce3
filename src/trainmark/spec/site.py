"""A site: where cases run, what is there, and how to start things there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError
from trainmark.spec import yamlfile
from trainmark.spec.case_id import is_name
from trainmark.spec.convert import convert
from trainmark.spec.secrets import looks_secret


class Tuning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How ranks use the host. What was really chosen is in each round's result."""

    threads: int | Literal["auto"] = "auto"
    affinity: Literal["auto", "none"] = "auto"
    allocator: Literal["auto", "tcmalloc", "glibc", "default"] = "auto"


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`site.yaml`, checked."""

    schema: Literal[1] = 1
    name: str = "local"
    launcher: str = "local"
    hosts: list[str] = []
    python: str | None = None
    devices: dict[str, str] = {}
    data: dict[str, str] = {}
    env: dict[str, str] = {}
    unset: list[str] = []
    tuning: Tuning = Tuning()
    containment: Literal["auto", "pidns", "cgroup", "subreaper"] = "auto"
    master_port: int = 0


def load(path: Path | None, hostname: str) -> Site:
    """The site in `path`, or this machine. `hostname` names the one host of a site that lists none."""
    if path is None:
        return Site(hosts=[hostname])
    raw: Any = yamlfile.load(path)
    site = convert(raw, Site, str(path))
    if site.launcher == "local" and len(site.hosts) > 1:
        raise UserError(f"{path}: hosts: launcher `local` runs on this machine only, found {len(site.hosts)} hosts")
    for name, value in site.env.items():
        if looks_secret(name, value):
            raise UserError(
                f"{path}: env.{name} looks like a secret, and results keep the site; "
                "export it instead: ranks inherit the environment"
            )
    for position, host in enumerate(site.hosts):
        if not is_name(host.replace(":", "")):
            raise UserError(f"{path}: hosts[{position}]: found {host!r}, allowed is a host name or an address")
    if not 0 <= site.master_port <= 65535:
        raise UserError(f"{path}: master_port: found {site.master_port}, allowed is 0 (any free port) to 65535")
    if isinstance(site.tuning.threads, int) and site.tuning.threads < 1:
        raise UserError(f"{path}: tuning.threads: found {site.tuning.threads}, allowed is `auto` or 1 and more")
    python = site.python
    if python is not None and "/" in python and not Path(python).expanduser().is_absolute():
        python = str(path.parent.resolve() / python)
    return msgspec.structs.replace(site, hosts=site.hosts or [hostname], python=python)
