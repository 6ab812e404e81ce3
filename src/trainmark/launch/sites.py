"""Loading a site: the file as `spec` reads it, and its launcher's part as that launcher checks and completes it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from trainmark.devices.protocol import accelerators_here
from trainmark.launch.protocol import REGISTRY, launcher_of
from trainmark.spec import auto
from trainmark.spec import site as sites
from trainmark.spec.site import Accelerators, Site
from trainmark.spec.suite import Loaded
from trainmark.spec.yamlfile import Location


def load_site(path: Path | None, hostname: str = "") -> Site:
    """The site in `path`, or this machine. `hostname` names the one host of a site that lists none."""
    if path is None:
        return Site(hosts=[hostname or os.uname().nodename])
    site, where = sites.read(path, REGISTRY)
    return complete(site, where, hostname)


def for_suite(loaded: Loaded, site: Site) -> Site:
    """The site as the suite needs it: with what this machine has, where cases say `auto` and the site does not."""
    if site.accelerators is not None or not auto.is_asked(loaded.suite.cases) or not launcher_of(site).this_machine:
        return site
    found = accelerators_here()
    return msgspec.structs.replace(site, accelerators=Accelerators(*found) if found else auto.NONE_FOUND)


def complete(site: Site, where: Location, hostname: str = "") -> Site:
    """A site that was read, or made in Python, with everything checked and filled in."""
    launcher = launcher_of(site)
    site = launcher.configure(site, where)
    site = msgspec.structs.replace(site, hosts=site.hosts or [hostname or os.uname().nodename])
    return sites.complete(site, where, this_machine=launcher.this_machine)
