"""A site: where cases run, what is there, and how to start things there."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from trainmark.agent.secrets import looks_secret
from trainmark.cache import cache_dir
from trainmark.errors import UserError
from trainmark.plugins import Registry
from trainmark.spec import fabric as fabrics
from trainmark.spec import notation, yamlfile
from trainmark.spec.case_id import is_name
from trainmark.spec.inputs import expanded, read_text
from trainmark.spec.yamlfile import Location, convert

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
    # Which there are depends on the launcher.
    engine: str = "docker"
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


class Accelerators(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each host has to train on: a vendor, or a model that `devices` maps to one, and how many of them."""

    device: str
    count: int = 1


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an hour of all hosts of the site costs together. Only prices in one currency are compared."""

    per_hour: Annotated[float, msgspec.Meta(gt=0)]
    currency: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")]


# Of `rank_table`: made from `fabric`, and sent along.
AUTO_RANK_TABLE = "auto"


class Ipmi(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How `ipmitool` on a node reads the power of the machine: from its own board, or over the network. The password is
    in a file on the node, or in the variable `IPMI_PASSWORD` there."""

    every: float = 5.0
    # `{host}` stands for the name of the node.
    host: str | None = None
    user: str | None = None
    password_file: str | None = None
    interface: str = "lanplus"

    def command(self, node: str) -> list[str]:
        words = ["ipmitool"]
        if self.host is not None:
            words += ["-I", self.interface, "-H", self.host.replace("{host}", node)]
            words += ["-U", self.user] if self.user else []
            words += ["-f", self.password_file] if self.password_file else ["-E"]
        return [*words, "dcmi", "power", "reading"]


class Redfish(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a node asks a board over Redfish for the power of the machine. The password is in a file on the node, or in
    the variable `REDFISH_PASSWORD` there."""

    # `{host}` stands for the name of the node.
    url: str
    every: float = 5.0
    user: str | None = None
    password_file: str | None = None
    # Whose signature the board's certificate has, where the system does not know it.
    ca_file: str | None = None
    # Of several that tell their power.
    chassis: str | None = None

    def command(self, node: str) -> list[str]:
        settings = {**msgspec.to_builtins(self), "url": self.url.replace("{host}", node)}
        return ["redfish", msgspec.json.encode(settings).decode()]


class Site(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`site.yaml`, checked."""

    schema: Literal[1] = 1
    name: str = "local"
    launcher: str = "local"
    # In a file `launcher: {name: NAME, …}`, or `NAME: {…}` beside `launcher: NAME`. Checked by the launcher.
    launcher_options: dict[str, Any] = {}
    # An empty name stands for a host that the launcher is yet to choose.
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
    container: Container | None = None
    prepare: Prepare | None = None
    env_file: str | None = None
    # Before every round; needs root or `sudo -n`, and the result says when it could not be done.
    clear_caches: bool = False
    interface: str | None = None
    # What starts the ranks of Horovod, and what is added to the command line of mpirun, srun or horovodrun.
    mpi_starter: Literal["horovodrun", "mpirun"] | None = None
    mpi_options: list[str] = []
    # A file on the hosts that lists all devices and their addresses, as Ascend's libraries read it; `auto`: it is made
    # from `fabric` and sent along.
    rank_table: str | None = None
    devices: dict[str, str] = {}
    # What `auto` stands for in cases; this machine is looked at when it is not said.
    accelerators: Accelerators | None = None
    # Device as the case names it → number format → peak. Goes before what trainmark itself knows.
    vendor_peaks: dict[str, dict[str, VendorPeak]] = {}
    # For leaderboards; goes into the manifest, and from there into bundles.
    price: Price | None = None
    # Reads the power of whole machines.
    ipmi: Ipmi | None = None
    redfish: Redfish | None = None
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
    # For `trainmark serve`: the account on the hosts that the jobs of each user run as.
    accounts: dict[str, str] = {}

    @property
    def rank_table_file(self) -> str | None:
        """The table that is on the hosts already."""
        return None if self.rank_table == AUTO_RANK_TABLE else self.rank_table


def peaks_file(path: Path | None, host: str) -> Path:
    """Where a site's peaks are kept; this machine without a site file has them in the user's cache folder."""
    if path is None:
        return cache_dir(PEAKS) / f"{host}.{PEAKS}.json"
    return path.with_name(f"{path.name.removesuffix('.yaml').removesuffix('.yml')}.{PEAKS}.json")


# The launcher of a site that names none.
_THIS_MACHINE = "local"
_OPTIONS = "launcher_options"


def read(path: Path, launchers: Registry) -> tuple[Site, Location]:
    """The site in a file, before its launcher has looked at it, and where its values stand."""
    source = yamlfile.read(path)
    return of_content(source.content, source.where, launchers), source.where


def of_content(content: Any, where: Location, launchers: Registry) -> Site:
    """A site of what a YAML file holds, or of the same made in Python; paths in it are relative to the folder of
    `where`."""
    site = convert(_with_launcher(content, where, launchers), Site, where)
    hosts = notation.expand_hosts(site.hosts, where.file)
    if site.hosts_file is not None:
        hosts += notation.read_host_file(
            Path(where.file).parent / expanded(site.hosts_file, str(where.at("hosts_file")))
        )
    if "" in hosts:
        raise UserError(f"{where.at('hosts', hosts.index(''))}: found '', allowed is a host name or an address")
    return _resolved(msgspec.structs.replace(site, hosts=hosts), where)


def _with_launcher(raw: Any, where: Location, launchers: Registry) -> Any:
    """One spelling for `launcher: {name: NAME, …}` and `launcher: NAME` with `NAME: {…}`."""
    if not isinstance(raw, dict):
        return raw
    if _OPTIONS in raw:
        raise UserError(f"{where.at(_OPTIONS)}: unknown key; write `launcher: {{name: …, …}}`")
    raw = dict(raw)
    asked = raw.get("launcher", _THIS_MACHINE)
    if isinstance(asked, dict):
        name, options, place = asked.get("name"), dict(asked), where.at("launcher")
        options.pop("name", None)
        if not isinstance(name, str):
            raise UserError(f"{place.at('name')}: found {name!r}, allowed is the name of a launcher")
        raw["launcher"] = name
    else:
        name, place = str(asked), where.at(str(asked))
        options = raw.pop(name, None) or {}
    if not isinstance(options, dict):
        raise UserError(f"{place}: found {options!r}, allowed are options of launcher `{name}`")
    raw[_OPTIONS] = options
    for key in raw:
        if key not in Site.__struct_fields__ and key in launchers.names():
            raise UserError(f"{where.at(key)}: only launcher `{key}` reads it, found launcher `{name}`")
    return raw


def options_location(site: Site, where: Location) -> Location:
    """Where the launcher's options stand in the file."""
    return where.at("launcher") if ("launcher", "name") in where.lines else where.at(site.launcher)


def beside(where: Location, name: str) -> str:
    """A file of this machine that the site names, from the folder the site lies in."""
    return str(Path(where.file).parent.resolve() / expanded(name, str(where)))


def of_older_version(raw: dict[str, Any]) -> dict[str, Any]:
    """A site as manifests held it when launchers' options had keys of their own."""
    known = {key: value for key, value in raw.items() if key in Site.__struct_fields__}
    return {**known, _OPTIONS: raw.get(raw.get("launcher", "")) or {}}


def _resolved(site: Site, where: Location) -> Site:
    """Every file of this machine that the site names, as an absolute path."""
    replace = msgspec.structs.replace

    def here(name: str) -> str:
        return beside(where, name)

    if site.container and isinstance(site.container.image, Build):
        site = replace(site, container=replace(site.container, image=Build(here(site.container.image.build))))
    if site.prepare:
        requirements = site.prepare.requirements and here(site.prepare.requirements)
        extensions = [here(name) for name in site.prepare.extensions]
        site = replace(site, prepare=replace(site.prepare, requirements=requirements, extensions=extensions))
        for name in [*extensions, *([requirements] if requirements else [])]:
            if not Path(name).exists():
                raise UserError(f"{where.at('prepare')}: there is no {name}")
    if any(one.hccn for one in site.fabric.values()):
        fabric = {host: replace(one, hccn=one.hccn and here(one.hccn)) for host, one in site.fabric.items()}
        site = replace(site, fabric=fabric)
    if site.env_file:
        site = replace(site, env={**_read_env(Path(here(site.env_file))), **site.env})
    return site


def _read_env(path: Path) -> dict[str, str]:
    """NAME=VALUE on each line; empty lines and comments are passed over. No shell reads it."""
    found = {}
    lines = read_text(path).splitlines()
    for number, line in enumerate(lines, 1):
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or not name.isidentifier():
            raise UserError(f"{path}: line {number}: found {line!r}, allowed is NAME=VALUE")
        found[name] = value.strip("'\"")
    return found


_SECRET_CURES = {
    True: "export it instead: ranks inherit the environment",
    False: "set it on the hosts themselves: ranks inherit what a login there gives",
}


def complete(site: Site, where: Location, *, this_machine: bool) -> Site:
    """The last checks, once the launcher has completed its part; and the Python by its path."""
    _check(site, where, this_machine)
    python = site.python or (f"{site.venv.rstrip('/')}/bin/python" if site.venv else None)
    if python is not None and "/" in python and not expanded(python, str(where.at("python"))).is_absolute():
        if not this_machine:
            raise UserError(
                f"{where.at('python')}: found {python!r}, allowed is a name or an absolute path on the hosts"
            )
        python = beside(where, python)
    return msgspec.structs.replace(site, python=python)


def _port(address: SplitResult) -> bool:
    """Whether it names none, or one that exists."""
    try:
        return address.port is None or address.port > 0
    except ValueError:
        return False


def _check_redfish(site: Site, where: Location) -> None:
    asked, place = site.redfish, where.at("redfish")
    if asked is None:
        return
    if site.ipmi is not None:
        raise UserError(f"{place}: a site reads the power of its machines by `ipmi` or by `redfish`, not by both")
    if asked.every < 1:
        raise UserError(f"{place.at('every')}: found {asked.every}, allowed is 1 second and more")
    address = urlsplit(asked.url.replace("{host}", "h"))
    whole = address.scheme == "https" and address.hostname and _port(address)
    if not whole or address.username or address.path.strip("/"):
        # A password would be read on the way.
        raise UserError(f"{place.at('url')}: found {asked.url!r}, allowed is `https://BOARD` or `https://BOARD:PORT`")


def _check(site: Site, where: Location, this_machine: bool) -> None:
    for name, value in site.env.items():
        if looks_secret(name, value):
            raise UserError(
                f"{where.at('env', name)} looks like a secret, and results keep the site; "
                + _SECRET_CURES[this_machine]
            )
    for device, formats in site.vendor_peaks.items():
        for dtype, peak in formats.items():
            if not 0 < peak.flops < math.inf or not peak.source.strip():
                raise UserError(
                    f"{where.at('vendor_peaks', device, dtype)}: found {peak.flops:g} FLOP/s from {peak.source!r}, "
                    "allowed is a positive number and where it is written"
                )
    if site.accelerators is not None and not (site.accelerators.count > 0 and is_name(site.accelerators.device)):
        raise UserError(
            f"{where.at('accelerators')}: found {site.accelerators.count} x {site.accelerators.device!r}, allowed is a "
            "device and a whole number from 1"
        )
    if site.ipmi is not None and (site.ipmi.every < 1 or (site.ipmi.host or "").startswith("-")):
        raise UserError(f"{where.at('ipmi')}: `every` is 1 second or more, and `host` the name of a board")
    _check_redfish(site, where)
    for user, account in site.accounts.items():
        if not re.fullmatch(r"[a-z_][a-z0-9_.-]{0,31}", account):
            raise UserError(f"{where.at('accounts', user)}: found {account!r}, allowed is the name of an account")
    for position, host in enumerate(site.hosts):
        if host and not is_name(host.replace(":", "")):
            raise UserError(f"{where.at('hosts', position)}: found {host!r}, allowed is a host name or an address")
    if site.rank_table_file is not None and not site.rank_table_file.startswith("/"):
        # Every rank has a folder of its own, and no shell reads this.
        raise UserError(
            f"{where.at('rank_table')}: found {site.rank_table!r}, allowed is `auto` or an absolute path on the hosts"
        )
    if site.fabric:
        fabrics.check(site.fabric, site.hosts, where.file)
    twice = [host for host, count in Counter(site.hosts).items() if host and count > 1]
    if twice:
        more = f" and {len(twice) - 5} more" if len(twice) > 5 else ""
        raise UserError(f"{where.at('hosts')}: {', '.join(sorted(twice)[:5])}{more} named twice")
    if not 0 <= site.master_port <= 65535:
        raise UserError(f"{where.at('master_port')}: found {site.master_port}, allowed is 0 (any free port) to 65535")
    tuning, place = site.tuning, where.at("tuning")
    if isinstance(tuning.threads, int) and tuning.threads < 1:
        raise UserError(f"{place.at('threads')}: found {tuning.threads}, allowed is `auto` or 1 and more")
    for name, least in (("spare_cores", 0), ("share", 1)):
        if getattr(tuning, name) < least:
            raise UserError(f"{place.at(name)}: found {getattr(tuning, name)}, allowed is {least} and more")
