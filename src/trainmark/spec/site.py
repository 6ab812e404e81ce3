"""A site: where cases run, what is there, and how to start things there."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.cache import cache_dir
from trainmark.errors import UserError
from trainmark.spec import fabric as fabrics
from trainmark.spec import notation, yamlfile
from trainmark.spec import slurm as slurms
from trainmark.spec.case_id import is_name
from trainmark.spec.secrets import looks_secret
from trainmark.spec.yamlfile import convert

LogLevel = Literal["debug", "info", "warning", "error"]
# What a site can reach, and the workload that measures it.
PEAKS = "peaks"


class Tuning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How ranks use the host. What was really chosen is in each round's result."""

    threads: int | Literal["auto"] = "auto"
    affinity: Literal["auto", "none"] = "auto"
    allocator: Literal["auto", "tcmalloc", "glibc", "default"] = "auto"
    # With `threads: auto`: cores left to others, and how many agents share the rest of the host.
    spare_cores: int = 0
    share: int = 1


class Ssh(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How hosts are entered. What is left out, ssh takes from the user's own configuration."""

    user: str | None = None
    port: int | None = None
    config: str | None = None
    fan_out: int = 32
    connect_seconds: float = 20.0
    # A host without contact for so long is given up; its agent still ends at its own deadline.
    lost_seconds: float = 120.0


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image made from a folder with a Dockerfile, on the first host, and copied to the others."""

    build: str


class Prepare(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is installed for the ranks before they start, once per host and image. Paths are relative to the site."""

    requirements: str | None = None
    index: str | None = None
    # Folders with a setup of their own (pyproject.toml), such as compiled extensions.
    extensions: list[str] = []
    options: list[str] = []


class Container(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ranks run in. `options` go to the engine as they are."""

    image: str | Build
    pull: Literal["never", "missing"] = "never"
    engine: Literal["docker", "podman", "pyxis", "apptainer"] = "docker"
    python: str = "python3"
    runtime: str | None = None
    network: str = "host"
    # None: the host's, whose shared memory has a size of its own; with `shm_size` the container's.
    ipc: str | None = None
    shm_size: str | None = None
    user: str | None = None
    capabilities: list[str] = []
    devices: list[str] = []
    mounts: list[str] = []
    ulimits: dict[str, str] = {}
    options: list[str] = []


class VendorPeak(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most one device can do by its maker's own word: FLOP/s with dense matrices, and where that is written."""

    flops: float
    source: str


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`site.yaml`, checked."""

    schema: Literal[1] = 1
    name: str = "local"
    launcher: str = "local"
    hosts: list[str] = []
    hosts_file: str | None = None
    python: str | None = None
    venv: str | None = None
    # By framework, where one Python does not have them all.
    pythons: dict[str, str] = {}
    modules: list[str] = []
    # The Python that runs the node side itself: 3.7 or newer, nothing else needed.
    node_python: str = "python3"
    # On the hosts. What is in `work_dir` is each host's own; `shared_dir` is seen by all, and proven to be.
    work_dir: str = "~/.trainmark"
    shared_dir: str | None = None
    ssh: Ssh = Ssh()
    slurm: slurms.Slurm | None = None
    container: Container | None = None
    prepare: Prepare | None = None
    env_file: str | None = None
    # Before every round; needs root or `sudo -n`, and the result says when it could not be done.
    clear_caches: bool = False
    interface: str | None = None
    # What starts the ranks of Horovod, and what is added to the command line of mpirun, srun or horovodrun.
    mpi_starter: Literal["horovodrun", "mpirun"] | None = None
    mpi_options: list[str] = []
    # A file on the hosts that lists all devices and their addresses, as Ascend's libraries read it.
    rank_table: str | None = None
    devices: dict[str, str] = {}
    # Device as the case names it → number format → peak. Goes before what trainmark itself knows.
    vendor_peaks: dict[str, dict[str, VendorPeak]] = {}
    # Addresses of the devices themselves, by host; rank tables are made of them.
    fabric: dict[str, fabrics.Fabric] = {}
    data: dict[str, str] = {}
    env: dict[str, str] = {}
    # How much the libraries below say; suites and cases may say otherwise.
    log_level: LogLevel | None = None
    unset: list[str] = []
    tuning: Tuning = Tuning()
    containment: Literal["auto", "pidns", "cgroup", "subreaper"] = "auto"
    master_port: int = 0


def peaks_file(path: Path | None, host: str) -> Path:
    """Where a site's peaks are kept; this machine without a site file has them in the user's cache folder."""
    if path is None:
        return cache_dir() / PEAKS / f"{host}.{PEAKS}.json"
    return path.with_name(f"{path.name.removesuffix('.yaml').removesuffix('.yml')}.{PEAKS}.json")


def load(path: Path | None, hostname: str) -> Site:
    """The site in `path`, or this machine. `hostname` names the one host of a site that lists none."""
    if path is None:
        return Site(hosts=[hostname])
    raw: Any = yamlfile.load(path)
    site = convert(raw, Site, str(path))
    named = notation.expand_hosts(site.hosts, str(path))
    if site.hosts_file is not None:
        named += notation.read_host_file(path.parent / Path(site.hosts_file).expanduser())
    if site.launcher == "slurm":
        site = _with_slurm(site, path, named)
        named = named or [f"any{number}" for number in range(_slurm(site).nodes or 0)]
    elif site.slurm is not None:
        raise UserError(f"{path}: slurm: only launcher `slurm` reads it, found launcher `{site.launcher}`")
    site = _resolved(msgspec.structs.replace(site, hosts=named or [hostname]), path)
    if site.launcher == "local":
        _check_local(site, path)
    else:
        _check_remote(site, path)
    _check(site, path)
    python = site.python or (f"{site.venv.rstrip('/')}/bin/python" if site.venv else None)
    if python is not None and "/" in python and not Path(python).expanduser().is_absolute():
        if site.launcher != "local":
            raise UserError(f"{path}: python: found {python!r}, allowed is a name or an absolute path on the hosts")
        python = str(path.parent.resolve() / python)
    return msgspec.structs.replace(site, python=python)


_RECIPES = ("Dockerfile", "Containerfile")


def _resolved(site: Site, path: Path) -> Site:
    """Every file of this machine that the site names, from the folder the site lies in."""

    def here(name: str) -> str:
        return str(path.parent.resolve() / Path(name).expanduser())

    replace = msgspec.structs.replace
    if site.ssh.config:
        site = replace(site, ssh=replace(site.ssh, config=here(site.ssh.config)))
    if site.container and isinstance(site.container.image, Build):
        site = replace(site, container=replace(site.container, image=Build(here(site.container.image.build))))
    if site.prepare:
        requirements = site.prepare.requirements and here(site.prepare.requirements)
        extensions = [here(name) for name in site.prepare.extensions]
        site = replace(site, prepare=replace(site.prepare, requirements=requirements, extensions=extensions))
        for name in [*extensions, *([requirements] if requirements else [])]:
            if not Path(name).exists():
                raise UserError(f"{path}: prepare: there is no {name}")
    if any(one.hccn for one in site.fabric.values()):
        fabric = {host: replace(one, hccn=one.hccn and here(one.hccn)) for host, one in site.fabric.items()}
        site = replace(site, fabric=fabric)
    if site.env_file:
        site = replace(site, env={**_read_env(Path(here(site.env_file))), **site.env})
    return site


def _read_env(path: Path) -> dict[str, str]:
    """NAME=VALUE on each line; empty lines and comments are passed over. No shell reads it."""
    found = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or not name.isidentifier():
            raise UserError(f"{path}: line {number}: found {line!r}, allowed is NAME=VALUE")
        found[name] = value.strip("'\"")
    return found


def _slurm(site: Site) -> slurms.Slurm:
    return site.slurm or slurms.Slurm()


def _with_slurm(site: Site, path: Path, named: list[str]) -> Site:
    """A site for Slurm: the nodes are named, or Slurm chooses so many; all of them see `shared_dir`."""
    slurm = _slurm(site)
    slurms.check(slurm, path)
    if slurm.nodes is not None and named:
        raise UserError(f"{path}: slurm.nodes: `hosts` names the nodes already; give one of the two")
    if slurm.nodes is None and not named:
        raise UserError(f"{path}: slurm.nodes: missing; say how many nodes to ask for, or name them in `hosts`")
    if site.shared_dir is None:
        raise UserError(
            f"{path}: shared_dir: missing; launcher `slurm` needs a folder that this machine and all nodes see, "
            "such as a home folder on NFS; without one, use launcher `ssh`"
        )
    for name in ("prepare", "clear_caches"):
        if getattr(site, name):
            raise UserError(f"{path}: {name}: launcher `slurm` does not do this; have it done on the nodes beforehand")
    conf = slurm.conf and str(path.parent.resolve() / Path(slurm.conf).expanduser())
    return msgspec.structs.replace(site, slurm=msgspec.structs.replace(slurm, conf=conf))


_ENGINES = {"ssh": ("docker", "podman"), "slurm": ("pyxis", "apptainer")}


def _check_container(container: Container, launcher: str, path: Path) -> None:
    image = container.image
    if isinstance(image, str) and image.startswith("-"):
        raise UserError(f"{path}: container.image: found {image!r}, which looks like an option")
    if isinstance(image, Build) and not any((Path(image.build) / name).is_file() for name in _RECIPES):
        raise UserError(f"{path}: container.image.build: no {' or '.join(_RECIPES)} in {image.build}")
    if launcher == "slurm" and (isinstance(image, Build) or container.pull != "never"):
        raise UserError(
            f"{path}: container: launcher `slurm` takes an image that is there; build and pull are for `ssh`"
        )
    allowed = _ENGINES.get(launcher)
    if allowed and container.engine not in allowed:
        raise UserError(
            f"{path}: container.engine: found {container.engine!r}, allowed with launcher `{launcher}`: "
            f"{' or '.join(allowed)}"
        )


def _check_local(site: Site, path: Path) -> None:
    if len(site.hosts) > 1:
        raise UserError(f"{path}: hosts: launcher `local` runs on this machine only, found {len(site.hosts)} hosts")
    for name in ("container", "interface", "shared_dir"):
        if getattr(site, name) is not None:
            raise UserError(
                f"{path}: {name}: launcher `local` has none; use launcher `ssh`, be it with this host alone"
            )


def _check_remote(site: Site, path: Path) -> None:
    for name in ("work_dir", "shared_dir"):
        value = getattr(site, name)
        if value is not None and not value.startswith(("/", "~")):
            raise UserError(f"{path}: {name}: found {value!r}, allowed is an absolute path on the hosts, or one from ~")
    ssh = site.ssh
    if ssh.port is not None and not 1 <= ssh.port <= 65535:
        raise UserError(f"{path}: ssh.port: found {ssh.port}, allowed is 1 to 65535")
    if ssh.fan_out < 1:
        raise UserError(f"{path}: ssh.fan_out: found {ssh.fan_out}, allowed is 1 and more")
    for name in ("connect_seconds", "lost_seconds"):
        if not 1 <= getattr(ssh, name) <= 86400:
            raise UserError(f"{path}: ssh.{name}: found {getattr(ssh, name):g}, allowed is 1 to 86400")
    for name in ("user", "config"):
        if (getattr(ssh, name) or "").startswith("-"):
            raise UserError(f"{path}: ssh.{name}: found {getattr(ssh, name)!r}, which ssh would take for an option")
    if site.container:
        _check_container(site.container, site.launcher, path)


_SECRET_CURES = {
    True: "export it instead: ranks inherit the environment",
    False: "set it on the hosts themselves: ranks inherit what a login there gives",
}


def _check(site: Site, path: Path) -> None:
    for name, value in site.env.items():
        if looks_secret(name, value):
            raise UserError(
                f"{path}: env.{name} looks like a secret, and results keep the site; "
                + _SECRET_CURES[site.launcher == "local"]
            )
    for device, formats in site.vendor_peaks.items():
        for dtype, peak in formats.items():
            if not 0 < peak.flops < math.inf or not peak.source.strip():
                raise UserError(
                    f"{path}: vendor_peaks.{device}.{dtype}: found {peak.flops:g} FLOP/s from {peak.source!r}, "
                    "allowed is a positive number and where it is written"
                )
    for position, host in enumerate(site.hosts):
        if not is_name(host.replace(":", "")):
            raise UserError(f"{path}: hosts[{position}]: found {host!r}, allowed is a host name or an address")
    if site.rank_table is not None and not site.rank_table.startswith("/"):
        # Every rank has a folder of its own, and no shell reads this.
        raise UserError(f"{path}: rank_table: found {site.rank_table!r}, allowed is an absolute path on the hosts")
    if site.fabric:
        fabrics.check(site.fabric, site.hosts, str(path))
    twice = sorted({host for host in site.hosts if site.hosts.count(host) > 1})
    if twice:
        raise UserError(f"{path}: hosts: {', '.join(twice)} named twice")
    if not 0 <= site.master_port <= 65535:
        raise UserError(f"{path}: master_port: found {site.master_port}, allowed is 0 (any free port) to 65535")
    if isinstance(site.tuning.threads, int) and site.tuning.threads < 1:
        raise UserError(f"{path}: tuning.threads: found {site.tuning.threads}, allowed is `auto` or 1 and more")
    for name, least in (("spare_cores", 0), ("share", 1)):
        if getattr(site.tuning, name) < least:
            raise UserError(f"{path}: tuning.{name}: found {getattr(site.tuning, name)}, allowed is {least} and more")
