"""What every launcher is: its capabilities, its methods, the records they exchange, and the table of launchers.

`trainmark.testing.launchers` holds the tests that each must pass; `docs/adding-a-launcher.md` shows how to write one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from trainmark.errors import SiteError, UserError
from trainmark.launch import agent_command
from trainmark.plan.records import CasePlan, Plan
from trainmark.plugins import Registry
from trainmark.reasons import Reason
from trainmark.spec.site import Site, options_location
from trainmark.spec.states import JobState
from trainmark.spec.yamlfile import Location, convert


class Finding(msgspec.Struct, frozen=True):
    """One thing that `doctor` looked at. `good` is None for something worth knowing that is no fault. What was found,
    and its cure, are text as another program wrote it, or reasons."""

    host: str
    what: str
    good: bool | None
    found: str | Reason
    cure: str | Reason = ""


class NodeStart(msgspec.Struct, frozen=True):
    """One agent to start: its folder and its node plan."""

    host: str
    dir: Path
    plan: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One attempt, rendered: everything needed to start it, nothing started yet."""

    attempt_dir: Path
    token: str
    nodes: tuple[NodeStart, ...]


class StartedAttempt(msgspec.Struct, frozen=True):
    """A started attempt: its address (`ssh://site/…`) and its folder."""

    handle: str
    attempt_dir: Path
    token: str
    # What it waits for before it can begin, where a scheduler has it; None where its agents were started.
    waits_for: Reason | None = None


class Ended(msgspec.Struct, frozen=True):
    """How an attempt stands; `failure` names the first failing rank and its last lines. Of the kind `cancelled`:
    somebody cancelled the job through the site's scheduler, so it is not tried again."""

    state: JobState
    reason: Reason | None = None
    failure: dict[str, Any] | None = None


class AttemptSpec(msgspec.Struct, frozen=True):
    """Which attempt of which case to render."""

    run: str
    run_dir: Path
    attempt_dir: Path
    case: CasePlan
    round: int
    attempt: int
    token: str
    epoch: int
    seed: int
    # Known to the nodes of this attempt alone. The token is no secret: it names processes, containers and files.
    key: str = ""


class Quota(msgspec.Struct, frozen=True):
    """What an account of the site's scheduler may use, or one user of it (`user`). None: no limit. `resources`: by
    their names there, such as `cpu`, `node` or `gres/gpu`."""

    account: str
    user: str = ""
    max_jobs: int | None = None
    max_submitted: int | None = None
    max_minutes: int | None = None
    resources: dict[str, int] = {}


class Asked(msgspec.Struct, frozen=True):
    """What a job asks of the site's own scheduler: from 0 to 1000, seconds that it may run, whether it makes way for
    others, and a quality of service by its name."""

    priority: int
    seconds: float
    preemptible: bool = False
    qos: str | None = None


# `stop` gives ranks their grace, `kill` gives none, `destroy` does not even ask the agent.
How = Literal["stop", "kill", "destroy"]


class NoOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a launcher that has none."""


class Launcher(Protocol):
    """Subclass it: what has a body here is a default that a launcher may keep."""

    # Ranks run on the controller's own machine, whose files, devices and programs can be looked at before a start.
    this_machine: bool = False
    # Nodes see the run's folder under the same name as the controller.
    shared_folder: bool = False
    # It gives nodes the files of `CasePlan.handed`. Where nodes see the controller's files, there is no need to.
    hands_files: bool = False
    # A site may ask for a number of nodes; which ones they are is known once they are given.
    chooses_hosts: bool = False
    # The program by which ranks that agents do not start (MPI, Horovod) are started, beside the agents and not below
    # them. None: by a program of the site's choice, below the agent of the first node.
    rank_starter: str | None = None
    # The container engines it can run agents in.
    engines: tuple[str, ...] = ()
    # The record of its own part of a site, `launcher: {name: NAME, …}`.
    options_type: type[msgspec.Struct] = NoOptions

    def configure(self, site: Site, where: Location) -> Site:
        """The site with this launcher's part checked and completed; UserError names the key and the cure."""
        options = convert(site.launcher_options, self.options_type, options_location(site, where))
        for name in () if self.this_machine else ("work_dir", "shared_dir"):
            value = getattr(site, name)
            if value is not None and not value.startswith(("/", "~")):
                raise UserError(
                    f"{where.at(name)}: found {value!r}, allowed is an absolute path on the hosts, or one from ~"
                )
        if site.container is not None:
            agent_command.check_container(site.container, self.engines, site.launcher, where.at("container"))
        return msgspec.structs.replace(site, launcher_options=msgspec.to_builtins(options))

    def check(self, site: Site, plan: Plan | None) -> list[Finding]:
        """Whether the site can be used; changes nothing there."""
        ...

    def health(self, site: Site) -> dict[str, dict[str, Any]]:
        """What `agent/health` tells of each node that can be asked, by host; of those that cannot, nothing."""
        del site
        return {}

    def monitor(self, site: Site, action: str, port: int, runs: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Starts, stops or looks at the exporter of each host (`agent/exporter`); what each says, by host."""
        del action, port, runs
        raise SiteError(
            f"site `{site.name}`: launcher `{site.launcher}` has no hosts of its own to start exporters on; "
            "`trainmark monitor unit` prints a systemd unit for their administrator"
        )

    def check_plan(self, plan: Plan) -> None:
        """SiteError for what would make a run of the plan useless, before anything is started or written."""
        findings = [finding for finding in self.check(plan.site, plan) if finding.good is False]
        if findings:
            message = f"site `{plan.site.name}` cannot be used as it is; `--no-check` starts all the same"
            raise SiteError(message, findings)

    def check_runs(self, site: Site, runs: Path) -> None:
        """UserError where the nodes would not see a folder for runs that they must see."""

    def preview(self, plan: Plan) -> list[str]:
        """Lines for the dry run: how the launcher would ask for the nodes and start agents. Pure."""
        del plan
        return []

    def rank_options(self, site: Site) -> tuple[str, ...]:
        """What the site adds to the command line of `rank_starter`, besides `mpi_options`."""
        del site
        return ()

    def for_job(self, site: Site, asked: Asked) -> Site:
        """The site as one job of several people uses it: what its own scheduler is told. Nothing where it has none."""
        if asked.qos is not None:
            raise SiteError(f"qos: launcher `{site.launcher}` has none")
        return site

    def quotas(self, site: Site) -> list[Quota]:
        """What the accounts of the site's own scheduler may use."""
        raise UserError(f"site `{site.name}`: launcher `{site.launcher}` has no quotas")

    def put_quota(self, site: Site, quota: Quota) -> Quota:
        """Sets one; the account is made if there is none."""
        del quota
        raise UserError(f"site `{site.name}`: launcher `{site.launcher}` has no quotas")

    def for_account(self, site: Site, account: str) -> Site:
        """The site as it is used by one of several people: what they run there runs as this account. SiteError where
        that cannot be."""
        del account
        raise SiteError(f"launcher `{site.launcher}` cannot run jobs as accounts of their own; remove `accounts`")

    def site_for_workers(self, site: Site, *, several: bool) -> Site:
        """The site as it serves many workers that end at different times; `several`: some share a node."""
        del several
        return site

    def tunnel(self, site: Site, host: str, there: int, here: int) -> list[str]:
        """A program that makes port `here` of this machine appear as port `there` on a host, for launchers without a
        shared folder."""
        del there, here
        raise SiteError(f"site `{site.name}`: launcher `{site.launcher}` cannot connect {host} with this machine")

    def forward(self, site: Site, host: str, there: int, here: int) -> list[str] | None:
        """A program that makes port `there` of a host's loopback appear as port `here` of this machine's, until its
        input ends; None: the host is this machine, whose port can be used as it is."""
        del there, here
        raise SiteError(f"site `{site.name}`: launcher `{site.launcher}` cannot connect this machine with {host}")

    def allocation(self, handle: str) -> str | None:
        """What names the allocation that an attempt had; None where the site's own machines are used."""
        del handle
        return None

    def render(self, spec: AttemptSpec, site: Site) -> Request:
        """What submit would start. Pure."""
        ...

    def submit(self, request: Request) -> StartedAttempt:
        """Start it. Fails with SiteError when nothing could be started."""
        ...

    def find(self, attempt_dir: Path, token: str) -> StartedAttempt | None:
        """The attempt, if an agent of it was ever started (for a controller that takes over)."""
        ...

    def poll(self, jobs: Sequence[StartedAttempt], seconds: float) -> dict[str, Ended]:
        """States by handle, waiting up to `seconds` for one to end. One call for all attempts."""
        ...

    def cancel(self, job: StartedAttempt, epoch: int, why: Reason | str, how: How) -> None:
        """Make an attempt end. Returns at once; `poll` tells when it has."""
        ...

    def adopt(self, job: StartedAttempt, epoch: int) -> None:
        """Tell the agents which controller they obey from now on."""
        ...

    def collect(self, job: StartedAttempt) -> None:
        """Bring everything the attempt left into its folder and leave nothing behind, any number of times."""
        ...

    def job_logs(self, run_dir: Path) -> list[Path]:
        """What the site's scheduler, and the jobs it was asked for, said in a run."""
        del run_dir
        return []

    def release(self, run_dir: Path) -> list[str]:
        """The controller is done with a run: gives back what was held for it. Returns what could not be."""
        del run_dir
        return []


REGISTRY = Registry(
    "launcher",
    {
        "local": "trainmark.launch.local.launcher:LocalLauncher",
        "ssh": "trainmark.launch.ssh.launcher:SshLauncher",
        "slurm": "trainmark.launch.slurm.launcher:SlurmLauncher",
        "modelarts": "trainmark.launch.modelarts.launcher:ModelArtsLauncher",
    },
)


def launcher_of(site: Site) -> Launcher:
    """A new launcher of the kind that the site names; UserError when there is none."""
    launcher: Launcher = REGISTRY.get(site.launcher, f"site `{site.name}`")
    return launcher


def allocation_of(handle: str) -> str | None:
    """The allocation in which an attempt ran, by its handle; None on a site's own machines."""
    name = handle.partition(":")[0]
    if not REGISTRY.knows(name):
        return handle
    launcher: Launcher = REGISTRY.get(name)
    return launcher.allocation(handle)
