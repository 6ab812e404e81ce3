"""What a site says of its Slurm."""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from trainmark.errors import UserError
from trainmark.launch.protocol import Asked
from trainmark.launch.slurm.inherited import Inherited, current
from trainmark.launch.slurm.queue import call
from trainmark.spec.notation import expand_hosts, split_hosts
from trainmark.spec.site import Build, Site, beside, options_location
from trainmark.spec.yamlfile import Location

_TIME = r"\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d){0,2}|UNLIMITED|INFINITE"
_MEMORY = r"\d+[KMGT]?"
# What would make another kind of job, or another program, of the one that was planned.
_OWN = (
    *("--array", "--wrap", "--parsable", "--job-name", "--output", "--error", "--nodes", "--ntasks", "--test-only"),
    # Its jobs would be looked for on this one.
    "--clusters",
)
_SECONDS = {"queue_seconds": 1, "lost_seconds": 5, "idle_seconds": 5}


class SlurmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to ask Slurm for. What is left out is left to the cluster; `options` go to sbatch as they are."""

    # One job for the whole suite (default), for each block, or for each round (default for AutoML workers).
    allocation: Literal["suite", "block", "round"] | None = None
    # How many nodes, or which: `node[1-4]`, or `all` of the partition; where `hosts` does not name them.
    nodes: int | str | None = None
    # Inside salloc or sbatch: whether the nodes of that job are used. If not, another job is asked for.
    reuse: bool = True
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | int | None = None
    memory: str | None = None
    cpus_per_node: int | None = None
    gpus_per_node: int | None = None
    gres: str | None = None
    exclusive: bool = True
    constraint: str | None = None
    reservation: str | None = None
    options: list[str] = []
    # Added for jobs of a server that make way for others, such as `--qos=spare` or `--partition=spare`.
    preemptible: list[str] = []
    step_options: list[str] = []
    # Another slurm.conf than the machine's own.
    conf: str | None = None
    queue_seconds: float = 86400.0
    lost_seconds: float = 120.0
    # An allocation that no controller asks for anything is given back after so long.
    idle_seconds: float = 300.0

    @property
    def job_for_each(self) -> Literal["suite", "block", "round"]:
        return self.allocation or "suite"


def of(site: Site) -> SlurmOptions:
    return msgspec.convert(site.launcher_options, SlurmOptions)


def configured(site: Site, where: Location) -> Site:
    """The nodes are named, or Slurm chooses so many; all of them see `shared_dir`."""
    options, place, replace = of(site), options_location(site, where), msgspec.structs.replace
    check(options, place)
    options = replace(options, conf=options.conf and beside(where, options.conf))
    site, options = _with_hosts(site, options, place)
    if site.shared_dir is None:
        raise UserError(
            f"{where.at('shared_dir')}: missing; launcher `slurm` needs a folder that this machine and all nodes see, "
            "such as a home folder on NFS; without one, use launcher `ssh`"
        )
    for name in ("prepare", "clear_caches"):
        if getattr(site, name):
            raise UserError(
                f"{where.at(name)}: launcher `slurm` does not do this; have it done on the nodes beforehand"
            )
    if site.container and (isinstance(site.container.image, Build) or site.container.pull != "never"):
        raise UserError(
            f"{where.at('container')}: launcher `slurm` takes an image that is there; build and pull are for `ssh`"
        )
    return replace(site, launcher_options=msgspec.to_builtins(options))


def _with_hosts(site: Site, options: SlurmOptions, place: Location) -> tuple[Site, SlurmOptions]:
    """The site with a host for every node. `nodes` stays only where Slurm is to choose them."""
    replace = msgspec.structs.replace
    if options.nodes is not None and any(site.hosts):
        raise UserError(f"{place.at('nodes')}: `hosts` names the nodes already; give one of the two")
    if isinstance(options.nodes, str):
        site = replace(site, hosts=_named(options, place))
        options = replace(options, nodes=None)
    inherited = current() if options.reuse else None
    if inherited is not None:
        return _inside(inherited, site, options, place)
    if options.nodes is None and not site.hosts:
        raise UserError(
            f"{place.at('nodes')}: missing; say how many nodes to ask for, name them (`node[1-4]`, or `all` of the "
            "partition), or run inside salloc"
        )
    if isinstance(options.nodes, int):
        # An empty name: which node it is, is known once Slurm has given it.
        site = replace(site, hosts=[""] * options.nodes)
    return site, options


def _named(options: SlurmOptions, place: Location) -> list[str]:
    if options.nodes == "all":
        part = ["-p", options.partition] if options.partition else []
        found = call(["sinfo", "-h", "-N", *part, "-o", "%N"], options.conf).split()
        if not found:
            raise UserError(f"{place.at('nodes')}: no nodes in {options.partition or 'any partition'}; see `sinfo`")
        return list(dict.fromkeys(found))
    names = split_hosts(str(options.nodes))
    found = expand_hosts(names, str(place.at("nodes")))
    if not found or ",".join(names) != options.nodes or len(set(found)) != len(found):
        raise UserError(
            f"{place.at('nodes')}: found {options.nodes!r}, allowed is a number, names such as `node[1-4]`, or `all`"
        )
    return found


def _inside(inherited: Inherited, site: Site, options: SlurmOptions, place: Location) -> tuple[Site, SlurmOptions]:
    """Of the job that this controller runs in: the nodes that are named, the first so many, or all."""
    own = f"this is job {inherited.job} with {len(inherited.hosts)} node(s), which is used"
    cure = f"ask for them there, or set `reuse: false` in {place.at('reuse')} to have a job of its own"
    hosts = [host for host in site.hosts if host]
    missing = [host for host in hosts if host not in inherited.hosts]
    if missing:
        raise UserError(f"{place.at('nodes')}: {own}, and {', '.join(missing[:5])} is not among them; {cure}")
    if isinstance(options.nodes, int):
        if options.nodes > len(inherited.hosts):
            raise UserError(f"{place.at('nodes')}: {own}; the site wants {options.nodes}; {cure}")
        hosts = list(inherited.hosts[: options.nodes])
    chosen = hosts or list(inherited.hosts)
    return msgspec.structs.replace(site, hosts=chosen), msgspec.structs.replace(options, nodes=None)


def check(options: SlurmOptions, where: Location) -> None:
    """UserError for what Slurm would refuse, or would take for something else."""
    for name in ("partition", "account", "qos", "constraint", "reservation", "gres", "conf"):
        value = getattr(options, name)
        if value is not None and (not value or not value.isprintable()):
            raise UserError(f"{where.at(name)}: found {value!r}, allowed is a line of text")
    for name in ("nodes", "cpus_per_node", "gpus_per_node"):
        value = getattr(options, name)
        if isinstance(value, int) and value < 1:
            raise UserError(f"{where.at(name)}: found {value}, allowed is 1 and more")
    if options.time is not None and not (isinstance(options.time, str) and re.fullmatch(_TIME, options.time)):
        raise UserError(
            f"{where.at('time')}: found {options.time!r}, allowed is minutes, `hours:minutes:seconds` or "
            "`days-hours`, in quotes (YAML takes 1:30 for a number)"
        )
    if options.memory is not None and not re.fullmatch(_MEMORY, options.memory):
        raise UserError(f"{where.at('memory')}: found {options.memory!r}, allowed is megabytes per node, or as `64G`")
    for name, least in _SECONDS.items():
        if getattr(options, name) < least:
            raise UserError(f"{where.at(name)}: found {getattr(options, name):g}, allowed is {least} and more")
    for name in ("options", "preemptible", "step_options"):
        for position, option in enumerate(getattr(options, name)):
            _check_option(option, f"{where.at(name, position)}")


def _check_option(option: str, where: str) -> None:
    word = option.partition("=")[0]
    if not option.startswith("--") or not option.isprintable():
        raise UserError(f"{where}: found {option!r}, allowed is one long option, as in `--hint=nomultithread`")
    if word in _OWN:
        raise UserError(f"{where}: found {option!r}; {word} is trainmark's own")


# Steps of `--nice` for each step of a job's priority below the best that users may choose. Only operators of Slurm may
# ask for less than none.
_NICE, _BEST = 100, 200
# What ending a job may take beyond its own time limit, before Slurm ends it.
_GRACE_MINUTES = 2


def for_job(site: Site, asked: Asked) -> Site:
    """What Slurm is told of a server's job. A time and a quality of service that the site fixes stay."""
    options = of(site)
    more = [f"--nice={(_BEST - asked.priority) * _NICE}"]
    more += ["--requeue", *options.preemptible] if asked.preemptible else ["--no-requeue"]
    minutes = math.ceil(asked.seconds / 60) + _GRACE_MINUTES
    changed = {
        "time": options.time or str(minutes),
        "qos": asked.qos or options.qos,
        "options": [*options.options, *more],
    }
    return msgspec.structs.replace(site, launcher_options={**site.launcher_options, **changed})
