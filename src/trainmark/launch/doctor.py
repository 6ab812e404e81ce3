"""`doctor`: whether a site can be used, what its launcher finds, and the health of its nodes."""

from __future__ import annotations

from trainmark.launch import health
from trainmark.launch.protocol import Finding, launcher_of
from trainmark.spec.site import Site


def look(site: Site) -> list[Finding]:
    """All findings, those of a host together, in the order of the hosts."""
    launcher = launcher_of(site)
    found = [*launcher.check(site, None), *health.findings(launcher.health(site))]
    order = list(dict.fromkeys(finding.host for finding in found))
    return sorted(found, key=lambda finding: order.index(finding.host))
