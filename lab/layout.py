"""Where everything of a lab lies, and what its hosts are called. Pure."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from trainmark.errors import UserError

HOME = Path("/var/lib/trainmark-lab")
# Every host has its own of these: what lies there on the machine is not seen in the hosts.
PRIVATE = ("/tmp", "/run", "/var/log")  # noqa: S108
HEAD = "ctl"
USER, UID = "bench", 7700
MOST = 200


class Options(msgspec.Struct, frozen=True):
    """What a lab is made of; kept beside it, so that a later `up` can add to it."""

    name: str = "lab"
    nodes: int = 2
    slurm: bool = False
    docker: bool = False
    gpus: int = 2
    binds: tuple[str, ...] = ()


class Layout(msgspec.Struct, frozen=True):
    """A lab's names, addresses and files. `subnet` tells labs on the same machine apart."""

    base: Path
    subnet: int
    options: Options

    @property
    def nodes(self) -> list[str]:
        return [f"node{number}" for number in range(1, self.options.nodes + 1)]

    @property
    def hosts(self) -> list[str]:
        return [*([HEAD] if self.options.slurm or self.options.docker else []), *self.nodes]

    @property
    def bridge(self) -> str:
        return f"tmlab{self.subnet}"

    @property
    def gateway(self) -> str:
        """The machine itself, seen from the hosts."""
        return f"10.77.{self.subnet}.254"

    def address(self, host: str) -> str:
        if host == HEAD:
            return f"10.77.{self.subnet}.100"
        number = int(host.removeprefix("node"))
        return f"10.77.{self.subnet}.{number if number < 100 else number + 1}"

    def card(self, host: str) -> str:
        """The hardware address, the same after every boot: others need not forget the old one first."""
        return "02:77:" + ":".join(f"{int(part):02x}" for part in self.address(host).split("."))

    def wire(self, host: str) -> str:
        """The machine's end of a host's cable."""
        return f"tm{self.subnet}-{host}"

    def cgroup(self, host: str) -> str:
        return f"trainmark-lab-{self.options.name}-{host}"

    def host(self, host: str) -> Path:
        return self.base / host

    @property
    def ssh_config(self) -> Path:
        return self.base / "ssh_config"

    @property
    def etc(self) -> Path:
        """The /etc of all hosts: a copy of the machine's."""
        return self.base / "etc"

    @property
    def slurm_etc(self) -> Path:
        return self.base / "etc-slurm"

    @property
    def munge_etc(self) -> Path:
        return self.base / "etc-munge"

    @property
    def shared(self) -> Path:
        """The one folder that is meant to be seen by all hosts."""
        return self.base / "shared"

    @property
    def registry(self) -> str:
        return f"{self.address(HEAD)}:5000"


def check(options: Options) -> None:
    """Refuses what cannot be built, before anything is."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,30}", options.name):
        raise UserError(f"--name {options.name}: allowed are small letters, digits and -, at most 31")
    if not 1 <= options.nodes <= MOST:
        raise UserError(f"--hosts {options.nodes}: allowed are 1 to {MOST}")
    if not 0 <= options.gpus <= 16:
        raise UserError(f"--gpus {options.gpus}: allowed are 0 to 16")


def is_hidden(path: Path) -> bool:
    """Whether a place of the machine lies where each host has its own."""
    return any(path == Path(top) or Path(top) in path.parents for top in PRIVATE)
