"""Hosts and devices of all sites: what there is, and who holds it now."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from trainmark.errors import UserError
from trainmark.run import machine
from trainmark.spec.states import JobState
from trainmark.web.server import Server
from trainmark.web.service import database, host_states, jobs, sites
from trainmark.web.service.errors import NotFound
from trainmark.web.service.host_states import HostState, HostStates
from trainmark.web.service.records import Principal
from trainmark.web.service.tables import jobs as table


class Use(msgspec.Struct, frozen=True):
    """Slots of a host that are held (None: all of it), and by which job, as far as the asker may see that."""

    slots: list[int] | None
    job: str | None
    name: str | None
    owner: str | None


class Host(msgspec.Struct, frozen=True):
    """`slots`: how many jobs' devices it has; None where only the site knows. `free` of them are not held."""

    name: str
    sites: list[str]
    device: str
    slots: int | None
    free: int | None
    uses: list[Use]
    # Kept from jobs by an admin, and until when.
    drained: HostState | None
    reserved: HostState | None


class DeviceKind(msgspec.Struct, frozen=True):
    """Devices of one kind at one site, over its hosts."""

    site: str
    device: str
    hosts: int
    count: int | None
    free: int | None


def listed(server: Server, asker: Principal) -> list[Host]:
    """This machine first. Sites with a scheduler of their own name no hosts here."""
    here = os.uname().nodename
    of_host: dict[str, tuple[list[str], str, int | None]] = {}
    for name in sites.names(server.home):
        try:
            site = sites.info(server.home, server.rules, name)
        except UserError:
            continue  # `sites/NAME/check` says what is wrong with it
        for host in [here] if site.queue == "embedded" else site.hosts:
            known = of_host.get(host)
            of_host[host] = ([*known[0], name], known[1], known[2]) if known else ([name], site.device, site.slots)
    uses = _uses(server, asker)
    for host in uses:
        of_host.setdefault(host, ([], "", None))
    with database.reading(server.engine) as connection:
        states = host_states.listed(connection)
    found = []
    for host in sorted(of_host, key=lambda host: (host != here, host)):
        names, device, slots = of_host[host]
        held, state = uses.get(host, []), states.get(host, HostStates())
        found.append(Host(host, names, device, slots, _free(slots, held), held, state.drain, state.reserve))
    return found


def need(server: Server, asker: Principal, name: str) -> None:
    """NotFound for a host that the server does not hand out."""
    if name not in (host.name for host in listed(server, asker)):
        raise NotFound(f"no host `{name}` that this server hands out; nodes of Slurm are drained by `scontrol`")


def _free(slots: int | None, uses: list[Use]) -> int | None:
    if slots is None:
        return None
    return 0 if any(one.slots is None for one in uses) else max(0, slots - sum(len(one.slots or ()) for one in uses))


def _uses(server: Server, asker: Principal) -> Mapping[str, list[Use]]:
    """By host. A job that the asker may not see is there without its name; so are runs of the command line."""
    with database.reading(server.engine) as connection:
        asked = jobs.visible(asker).where(table.c.state.in_([JobState.PENDING, JobState.RUNNING]))
        rows = connection.execute(asked).mappings()
        known = {str(jobs.run_path(server, row)): row for row in rows if row["run"]}
    found: dict[str, list[Use]] = {}
    for claim in machine.claims():
        row = known.get(claim.run)
        who = (row["id"], row["name"], row["owner"]) if row else (None, None, None)
        for host, slots in claim.places.items():
            found.setdefault(host, []).append(Use(slots, *who))
    return found


def devices(server: Server, asker: Principal) -> list[DeviceKind]:
    found: dict[tuple[str, str], DeviceKind] = {}
    for host in listed(server, asker):
        for site in host.sites:
            key = (site, host.device)
            known = found.get(key, DeviceKind(site, host.device, 0, 0, 0))
            found[key] = DeviceKind(
                site,
                host.device,
                known.hosts + 1,
                _sum(known.count, host.slots),
                _sum(known.free, 0 if host.drained else host.free),
            )
    return list(found.values())


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
