"""What every launcher can do. `testing` holds the tests that each must pass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from trainmark.launch import AttemptSpec, Ended, Finding, How, Job, Request
from trainmark.plan.records import Plan
from trainmark.spec.site import Site


class Launcher(Protocol):
    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        """Whether the site can be used; changes nothing there."""

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        """What submit would start. Pure."""

    def submit(self, request: Request) -> Job:
        """Start it. Fails with SiteError when nothing could be started."""

    def find(self, attempt_dir: Path, token: str) -> Job | None:
        """The attempt, if an agent of it was ever started (for a controller that takes over)."""

    def poll(self, jobs: Sequence[Job], seconds: float) -> dict[str, Ended]:
        """States by handle, waiting up to `seconds` for one to end. One call for all jobs."""

    def cancel(self, job: Job, epoch: int, reason: str, how: How) -> None:
        """Make an attempt end. Returns at once; `poll` tells when it has."""

    def adopt(self, job: Job, epoch: int) -> None:
        """Tell the agents which controller they obey from now on."""

    def collect(self, job: Job) -> None:
        """Bring everything the attempt left into its folder and leave nothing behind, any number of times."""

    def release(self, run_dir: Path) -> list[str]:
        """The controller is done with a run: gives back what was held for it. Returns what could not be."""
