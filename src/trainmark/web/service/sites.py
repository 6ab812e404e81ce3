"""Where jobs may run: this machine, and the sites whose files an admin put into the server's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from trainmark.devices.protocol import REGISTRY, accelerators_here
from trainmark.errors import SiteError, UserError
from trainmark.launch.protocol import Asked, launcher_of
from trainmark.launch.sites import load_site
from trainmark.spec.case_id import is_name
from trainmark.spec.site import Site
from trainmark.web.home import Home
from trainmark.web.service.errors import NotFound, Refused
from trainmark.web.service.records import JobSpec, Principal
from trainmark.web.service.rules import Mount, Rules

LOCAL = "local"


class SiteInfo(msgspec.Struct, frozen=True):
    """`queue`: who decides when jobs start there: the server (`embedded`, `hosts`) or the site's own scheduler."""

    name: str
    launcher: str
    queue: str
    hosts: list[str]
    device: str
    # Of each host; None where only the site knows.
    slots: int | None
    submit: str
    images: list[str]
    # What jobs may name besides: qualities of service, folders, and a range of ports.
    qos: list[str]
    mounts: list[str]
    ports: str
    # What the API can make of it: `slurm-init`, a cluster of hosts that have no queue of their own.
    offers: list[str]


def names(home: Home) -> list[str]:
    return [LOCAL, *sorted(file.stem for file in home.sites.glob("*.yaml") if file.stem != LOCAL)]


def load(home: Home, name: str) -> Site:
    """Only a name that is in the list is ever made a path."""
    if not is_name(name) or name not in names(home):
        raise NotFound(f"no site `{name}`")
    if name == LOCAL and not _file(home, name).is_file():
        return load_site(None)
    return load_site(_file(home, name))


def _file(home: Home, name: str) -> Path:
    return home.sites / f"{name}.yaml"


def check_may_submit(home: Home, rules: Rules, asker: Principal, site: str) -> None:
    """Whoever has an account there; where users have none, as server.yaml says."""
    found = load(home, site)
    if found.accounts:
        of_user(found, site, asker.name)
    elif rules.of(site).submit == "admins" and asker.role != "admin":
        raise Refused(
            f"site `{site}`: jobs there run as the server's own account, so only admins submit them; an admin may "
            f"give users accounts of their own in the site (`accounts: {{{asker.name}: ACCOUNT}}`), or trust them all "
            f"in server.yaml: `sites: {{{site}: {{submit: users}}}}`"
        )


def has_account(home: Home, user: str) -> bool:
    """Whether a site gives this user an account. One that cannot be read may."""
    for name in names(home):
        try:
            if user in load(home, name).accounts:
                return True
        except UserError:
            return True
    return False


def of_user(site: Site, name: str, user: str) -> Site:
    """The site as this user's jobs use it: with their own account there. Who has which account stays here."""
    if not site.accounts:
        return site
    account = site.accounts.get(user)
    if account is None:
        raise Refused(f"site `{name}`: `{user}` has no account there; an admin adds one to `accounts` of the site")
    try:
        return msgspec.structs.replace(launcher_of(site).for_account(site, account), accounts={})
    except SiteError as error:
        raise Refused(f"site `{name}`: {error}") from None


def with_image(rules: Rules, name: str, site: Site, image: str | None) -> Site:
    if image is None:
        return site
    allowed = rules.of(name).images
    if image not in allowed or site.container is None:
        raise Refused(f"image: site `{name}` does not allow {image!r}; it allows {', '.join(allowed) or 'none'}")
    return msgspec.structs.replace(site, container=msgspec.structs.replace(site.container, image=image))


def with_mounts(rules: Rules, name: str, site: Site, wanted: Sequence[str]) -> tuple[Site, dict[str, str]]:
    """The site with these folders in its containers, and where jobs see each."""
    known = rules.of(name).mounts
    for one in wanted:
        if one not in known:
            raise Refused(f"mounts: site `{name}` does not allow {one!r}; it allows {', '.join(known) or 'none'}")
    if site.container is None:
        return site, {one: known[one].source for one in wanted}
    more = [f"{mount.source}:{_seen(mount)}{'' if mount.write else ':ro'}" for mount in map(known.__getitem__, wanted)]
    container = msgspec.structs.replace(site.container, mounts=[*site.container.mounts, *more])
    return msgspec.structs.replace(site, container=container), {one: _seen(known[one]) for one in wanted}


def _seen(mount: Mount) -> str:
    return mount.target or mount.source


def check_ports(rules: Rules, name: str, wanted: Sequence[int]) -> None:
    allowed = rules.of(name).ports
    first, _, last = allowed.partition("-")
    for port in wanted:
        if not allowed or not int(first) <= port <= int(last):
            raise Refused(f"ports: site `{name}` does not allow {port}; it allows {allowed or 'none'}")


def for_job(rules: Rules, name: str, site: Site, spec: JobSpec) -> Site:
    """With what its own scheduler is told of the job."""
    if spec.qos is not None and spec.qos not in rules.of(name).qos:
        allowed = ", ".join(rules.of(name).qos) or "none"
        raise Refused(f"qos: site `{name}` does not allow {spec.qos!r}; it allows {allowed}")
    asked = Asked(spec.priority, spec.limit, spec.preemptible, spec.qos)
    return launcher_of(site).for_job(site, asked)


def info(home: Home, rules: Rules, name: str) -> SiteInfo:
    site = load(home, name)
    launcher = launcher_of(site)
    queue = "embedded" if launcher.this_machine else "scheduler" if launcher.chooses_hosts else "hosts"
    device, count = device_here(rules) if launcher.this_machine else _told(site)
    hosts = [] if launcher.chooses_hosts else list(site.hosts)
    allowed = rules.of(name)
    return SiteInfo(
        name=name,
        launcher=site.launcher,
        queue=queue,
        hosts=hosts,
        device=device,
        slots=count,
        submit=allowed.submit,
        images=list(allowed.images),
        qos=list(allowed.qos),
        mounts=list(allowed.mounts),
        ports=allowed.ports,
        offers=["slurm-init"] if site.launcher == "ssh" and site.hosts else [],
    )


def _told(site: Site) -> tuple[str, int | None]:
    found = site.accelerators
    return (found.device, found.count) if found else ("", None)


@cache
def _here() -> tuple[str, int] | None:
    """Looked for once: every page asks, and looking through all vendors takes longer than the rest of it."""
    return accelerators_here()


def device_here(rules: Rules) -> tuple[str, int]:
    """What this machine's slots are: its accelerators, else its cores."""
    found = _here()
    device, count = found or ("cpu", len(os.sched_getaffinity(0)))
    return device, rules.of(LOCAL).slots or count


def slots_env(device: str, numbers: Mapping[str, frozenset[int]]) -> dict[str, str]:
    """What shows a job its own devices only; nothing for cores, which it may share out itself."""
    try:
        visible = REGISTRY.get(device).visible
    except UserError:
        visible = None
    taken = sorted(number for group in numbers.values() for number in group)
    return {visible: ",".join(map(str, taken))} if visible and device != "cpu" else {}
