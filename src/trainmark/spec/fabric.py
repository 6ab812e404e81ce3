"""What a site says of the network between its devices: addresses that no host name leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trainmark.errors import UserError, did_you_mean, one_of


class Fabric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One host. Its devices are those that have an address in `device_ips` or in the file `hccn`."""

    # How rank tables call the host; its name in `hosts` where this is left out.
    address: str | None = None
    # On InfiniBand or RoCE, for programs of the host itself.
    ib_address: str | None = None
    # By the number of the device; null for one that shall not be used.
    device_ips: list[str | None] = []
    # A copy of the host's /etc/hccn.conf, or what its `hccn_tool -i N -ip -g` printed; relative to the site.
    hccn: str | None = None
    # In a super pod: its number, and the number of each device there.
    super_pod: str = "0"
    super_devices: list[str] = []


def check(fabric: Mapping[str, Fabric], hosts: Sequence[str], place: str) -> None:
    """UserError for hosts that are not there and addresses that are none, or are given twice."""
    seen: dict[str, str] = {}
    for host, one in fabric.items():
        if host not in hosts:
            raise UserError(
                f"{place}: fabric: {host} is not in `hosts`{did_you_mean(host, hosts)}; there is {one_of(hosts)}"
            )
        for device, address in enumerate(one.device_ips):
            if address is not None:
                _once(seen, address, f"{place}: fabric.{host}.device_ips[{device}]")
        if one.ib_address is not None:
            _once(seen, one.ib_address, f"{place}: fabric.{host}.ib_address")
        if one.device_ips and one.hccn:
            raise UserError(f"{place}: fabric.{host}: give either `device_ips` or `hccn`")
        if one.super_devices and one.device_ips and len(one.super_devices) != len(one.device_ips):
            raise UserError(
                f"{place}: fabric.{host}.super_devices: found {len(one.super_devices)}, "
                f"but there are {len(one.device_ips)} device_ips"
            )


def _once(seen: dict[str, str], address: str, place: str) -> None:
    check_address(address, place)
    if address in seen:
        raise UserError(f"{place}: {address} is already the address of {seen[address]}; each device has its own")
    seen[address] = place.partition("fabric.")[2]


def check_address(text: str, place: str) -> None:
    import ipaddress  # few sites need it

    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise UserError(f"{place}: found {text!r}, allowed is an IP address such as 192.168.10.1") from None
