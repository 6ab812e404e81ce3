"""What a site says of its hosts over ssh."""

from __future__ import annotations

import msgspec

from trainmark.errors import UserError
from trainmark.spec.site import Site
from trainmark.spec.yamlfile import Location


class SshOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hosts are entered. What is left out, ssh takes from the user's own configuration."""

    user: str | None = None
    port: int | None = None
    config: str | None = None
    fan_out: int = 32
    connect_seconds: float = 20.0
    # A host without contact for so long is given up; its agent still ends at its own deadline.
    lost_seconds: float = 120.0
    # This machine only, without ssh: the account that its agent runs as. Needs root.
    become: str | None = None


def of(site: Site) -> SshOptions:
    return msgspec.convert(site.launcher_options, SshOptions)


def check(options: SshOptions, where: Location) -> None:
    """UserError for what ssh would refuse, or would take for something else."""
    if options.port is not None and not 1 <= options.port <= 65535:
        raise UserError(f"{where.at('port')}: found {options.port}, allowed is 1 to 65535")
    if options.fan_out < 1:
        raise UserError(f"{where.at('fan_out')}: found {options.fan_out}, allowed is 1 and more")
    for name in ("connect_seconds", "lost_seconds"):
        if not 1 <= getattr(options, name) <= 86400:
            raise UserError(f"{where.at(name)}: found {getattr(options, name):g}, allowed is 1 to 86400")
    if options.become is not None:
        # Every host of the site would be this machine.
        raise UserError(f"{where.at('become')}: not for a site's file; `accounts:` says as whom jobs of users run")
    for name in ("user", "config"):
        if (getattr(options, name) or "").startswith("-"):
            raise UserError(f"{where.at(name)}: found {getattr(options, name)!r}, which ssh would take for an option")
