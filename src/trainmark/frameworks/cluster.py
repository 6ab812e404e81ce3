"""The one model behind every rank table and host file: hosts in order, and the devices of each. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from trainmark.errors import UserError
from trainmark.spec.fabric import Fabric, check_address
from trainmark.spec.site import Site

_CURE = "give `fabric: {{{host}: {{device_ips: …}}}}` in the site, or --hccn {host}=FILE with its /etc/hccn.conf"


class Device(msgspec.Struct, frozen=True):
    """One accelerator: its number on its host, in the whole cluster, and in its super pod."""

    id: int
    rank: int
    ip: str
    super_id: str | None


class Server(msgspec.Struct, frozen=True):
    host: str
    address: str
    ib_address: str | None
    slots: int
    devices: tuple[Device, ...]
    super_pod: str


class Cluster(msgspec.Struct, frozen=True):
    servers: tuple[Server, ...]

    @property
    def world(self) -> int:
        return sum(server.slots for server in self.servers)


def of_site(site: Site, nproc: int | None, hccn: Mapping[str, str]) -> Cluster:
    """Ranks go host by host, in the order of `hosts`, then by the number of the device, as a number.

    `nproc` is how many ranks each host gets, all its devices when None; `hccn` is text that tells device addresses.
    """
    servers: list[Server] = []
    rank = 0
    if "" in site.hosts:
        raise UserError(f"site `{site.name}`: its hosts have no names yet; name them in `hosts`")
    for host in site.hosts:
        known = site.fabric.get(host, Fabric())
        ips = read_hccn(hccn[host], f"hccn of {host}") if host in hccn else _listed(known)
        chosen = sorted(ips)[:nproc]
        if nproc is not None and ips and nproc > len(ips):
            raise UserError(f"{host} has {len(ips)} devices, {nproc} ranks were asked for; name a smaller --nproc")
        slots = nproc if nproc is not None else len(chosen)
        if not slots:
            raise UserError(f"how many ranks {host} gets is not known: {_CURE.format(host=host)}; or say --nproc N")
        devices = tuple(
            Device(device, rank + place, ips[device], _super_id(known, device)) for place, device in enumerate(chosen)
        )
        rank += slots
        servers.append(Server(host, known.address or host, known.ib_address, slots, devices, known.super_pod))
    return _checked(Cluster(tuple(servers)))


def _listed(known: Fabric) -> dict[int, str]:
    return {device: address for device, address in enumerate(known.device_ips) if address is not None}


def _super_id(known: Fabric, device: int) -> str | None:
    return known.super_devices[device] if device < len(known.super_devices) else None


def with_devices(cluster: Cluster) -> Cluster:
    """The same, once it is sure that every rank has a device with an address."""
    for server in cluster.servers:
        if len(server.devices) < server.slots:
            raise UserError(
                f"{server.host}: device addresses are missing, a rank table needs them: "
                + _CURE.format(host=server.host)
            )
    return cluster


def _checked(cluster: Cluster) -> Cluster:
    """Two of the same address would make two devices one."""
    seen: dict[str, str] = {}
    for server in cluster.servers:
        named = [(server.address, f"host {server.host}"), (server.ib_address, f"the fast network of {server.host}")]
        named += [(device.ip, f"device {device.id} of {server.host}") for device in server.devices]
        own: set[str] = set()
        for address, what in named:
            # A host may well be called by its address on the fast network.
            if address is None or (address in own and not what.startswith("device")):
                continue
            if address in seen:
                raise UserError(f"{address} is the address of {seen[address]} and of {what}; each has its own")
            seen[address] = what
            own.add(address)
    return cluster


_CONF = re.compile(r"^\s*address_(\d+)\s*=\s*(\S+)\s*$")
_TOOL = re.compile(r"^\s*ipaddr\s*:\s*([^\s/]+)")
_ASKED = re.compile(r"hccn_tool\s+-i\s+(\d+)\s+-ip\s+-g")


def read_hccn(text: str, place: str) -> dict[int, str]:
    """Device → address, from /etc/hccn.conf or from what `hccn_tool -i N -ip -g` printed for one device after another.

    Where the commands are among the output, they number the devices; else these are 0, 1, 2, …
    """
    found: dict[int, str] = {}
    following = 0
    for number, line in enumerate(text.splitlines(), 1):
        asked = _ASKED.search(line)
        if asked:
            following = int(asked[1])
        conf, tool = _CONF.match(line), _TOOL.match(line)
        if conf is None and tool is None:
            continue
        device, address = (int(conf[1]), conf[2]) if conf else (following, tool[1] if tool else "")
        check_address(address, f"{place}: line {number}")
        if device in found:
            raise UserError(f"{place}: line {number}: device {device} has the address {found[device]} already")
        found[device] = address
        following = device + 1
    if not found:
        raise UserError(f"{place}: no line `address_N=…` (hccn.conf) and none `ipaddr:…` (hccn_tool) in it")
    return found
