"""One lab: brought up, looked at, broken on purpose, and taken down without a trace."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

import trainmark
from lab import access, layout, packages, site, wires
from lab.layout import HEAD, Layout, Options
from trainmark.errors import SiteError, UserError
from trainmark.launch import process
from trainmark.store.files import read_json, write_json

_FIRST = Path(__file__).with_name("pid1.py")
# Nothing takes this long on an idle machine; on a busy one it may.
_SECONDS = 120.0
_ENV = {"PATH": packages.PATH, "USER": "root", "LANG": "C.UTF-8"}
Say = Callable[[str], None]
Done = subprocess.CompletedProcess[str]


def quiet(text: str) -> None:
    """For those who do not want to be told."""


class Lab:
    """Handles a lab that exists; `Lab.make` and `Lab.find` give one."""

    def __init__(self, plan: Layout, say: Say = quiet) -> None:
        self.layout = plan
        self._say = say

    # ---- from nothing to a lab and back

    @classmethod
    def make(cls, options: Options, *, install: bool = False, say: Say = quiet, home: Path = layout.HOME) -> Lab:
        """The lab of that name with at least what is asked for: made, mended or added to."""
        layout.check(options)
        packages.need(options, install=install)
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home):
            found = _read(home / options.name)
            plan = _merge(found, options) if found else _claim(home / options.name, options)
            lab = cls(plan, say)
            lab._check_binds(found)
            lab._up()
            return lab

    @classmethod
    def find(cls, name: str, say: Say = quiet, home: Path = layout.HOME) -> Lab | None:
        plan = _read(home / name)
        return cls(plan, say) if plan else None

    def _check_binds(self, found: Layout | None) -> None:
        """A host is given its folders when it boots: those that are up would not see another one."""
        new = [path for path in self.layout.options.binds if found and path not in found.options.binds]
        up = [host for host in self.layout.hosts if self.alive(host)]
        if up and any(layout.is_hidden(Path(path)) for path in new):
            raise UserError(
                f"--bind {' '.join(new)}: {', '.join(up)} are up and would not see it; `poweroff` each first, and this "
                "`up` boots them again, or take the lab `down`"
            )

    def _up(self) -> None:
        plan = self.layout
        if not plan.etc.is_dir():
            # What hosts write there, by whichever program, stays in the lab.
            subprocess.run(["cp", "-a", "/etc/.", str(plan.etc)], check=True)
        plan.shared.mkdir(parents=True, exist_ok=True)
        plan.shared.chmod(0o1777)
        access.write(plan)
        site.write(plan)
        if plan.options.slurm:
            from lab import slurm

            slurm.write(plan)
        if plan.options.docker:
            from lab import engines

            engines.write(plan)
        _write(plan)
        wires.ensure_bridge(plan)
        self._start(*[host for host in plan.hosts if not self.alive(host)])
        self._say(f"{len(plan.hosts)} hosts: {' '.join(plan.hosts)}")
        if plan.options.docker:
            from lab import engines

            engines.start(self)
            self._say(f"docker on every host, registry at {plan.registry}")
        if plan.options.slurm:
            from lab import slurm

            slurm.start(self)
            self._say("Slurm: all nodes idle")

    def down(self) -> None:
        """Nothing of the lab is left: no process, mount, wire, cgroup or file."""
        with _lock(self.layout.base.parent):
            for host in self.layout.hosts:
                self._kill(host)
            for host in self.layout.hosts:
                wires.ip("link", "del", self.layout.wire(host), check=False)
                for folder in Path("/sys/fs/cgroup").glob(f"*/{self.layout.cgroup(host)}"):
                    wires.remove_cgroup(folder)
            wires.ip("link", "del", self.layout.bridge, check=False)
            shutil.rmtree(self.layout.base)

    # ---- hosts

    @property
    def nodes(self) -> list[str]:
        return self.layout.nodes

    def pid(self, host: str) -> int | None:
        """The host's first process, as the machine knows it."""
        found = read_json(self.layout.host(host) / "pid.json")
        if isinstance(found, dict) and process.start_ticks(found["pid"]) == found["start_ticks"]:
            return int(found["pid"])
        return None

    def alive(self, host: str) -> bool:
        return self.pid(host) is not None

    def boot(self, *hosts: str) -> None:
        """Powers nodes on again, with the services they had."""
        self._start(*hosts)
        for host in hosts:
            if self.layout.options.docker:
                from lab import engines

                engines.start_docker(self, host)
            if self.layout.options.slurm:
                from lab import slurm

                slurm.start_munge(self, host)
                slurm.start_node(self, host)

    def _start(self, *hosts: str) -> None:
        """Starts hosts, all at once; returns when they can be entered."""
        begun = [(host, self._begin(host)) for host in hosts]
        try:
            for host, first in begun:
                self._plug_in(host, first)
            for host, first in begun:
                self._ready(host, first)
        finally:
            for _, first in begun:
                first.wait()
                for end in (first.stdin, first.stdout):
                    if end:
                        end.close()
        for host in hosts:
            wait_for(lambda host=host: self.ssh(host, "true", check=False).returncode == 0, f"ssh to {host}")  # type: ignore[misc]

    def _begin(self, host: str) -> subprocess.Popen[str]:
        root = self.layout.host(host)
        write_json(root / "boot.json", self._boot_spec(host))
        wires.ip("link", "del", self.layout.wire(host), check=False)
        with (root / "log" / "boot.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(_FIRST), str(root / "boot.json")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                cwd="/",
                env=_ENV,
            )

    def _boot_spec(self, host: str) -> dict[str, Any]:
        plan, root = self.layout, self.layout.host(host)
        files = [(root / name, f"/etc/{name}") for name in ("hostname", "passwd", "group")]
        files += [(plan.base / name, f"/etc/{name}") for name in ("hosts", "resolv.conf", "nsswitch.conf")]
        folders = [(root / "tmp", "/tmp"), (root / "log", "/var/log")]  # noqa: S108 - the host's own
        if plan.options.slurm:
            folders += [(plan.slurm_etc, "/etc/slurm"), (plan.munge_etc, "/etc/munge")]
        if plan.options.docker:
            folders += [(root / "containers", "/etc/containers")]
        return {
            "host": host,
            "address": f"{plan.address(host)}/24",
            "gpus": 0 if host == HEAD else plan.options.gpus,
            "dev": str(root / "dev"),
            "etc": str(plan.etc),
            "files": [[str(source), target] for source, target in files if Path(target).exists()],
            "folders": [[str(source), target] for source, target in folders],
            "keep": [str(path) for path in self.kept()],
            "sshd": shutil.which("sshd", path=packages.PATH),
            "sshd_config": str(root / "ssh" / "sshd_config"),
        }

    def kept(self) -> list[Path]:
        """What hosts must see although it lies where they have their own: the program, its Python, and binds."""
        sources = [Path(__file__).resolve().parents[1], Path(trainmark.__file__).resolve().parents[1]]
        wanted = [*sources, Path(sys.prefix), Path(sys.base_prefix).resolve(), *map(Path, self.layout.options.binds)]
        return sorted({path.absolute() for path in wanted if layout.is_hidden(path.absolute()) and path.is_dir()})

    def _plug_in(self, host: str, first: subprocess.Popen[str]) -> None:
        pid = (first.stdout.readline() if first.stdout else "").strip()
        if not pid:
            raise SiteError(f"{host} did not start; {self._boot_log(host)}")
        write_json(self.layout.host(host) / "pid.json", {"pid": int(pid), "start_ticks": process.start_ticks(int(pid))})
        wire = self.layout.wire(host)
        card = self.layout.card(host)
        wires.ip("link", "add", wire, "type", "veth", "peer", "name", "eth0", "address", card, "netns", pid)
        wires.ip("link", "set", wire, "master", self.layout.bridge, "up")
        if first.stdin:
            first.stdin.write("go\n")
            first.stdin.flush()

    def _ready(self, host: str, first: subprocess.Popen[str]) -> None:
        if not first.stdout or first.stdout.readline().strip() != "ready":
            raise SiteError(f"{host} could not be furnished; {self._boot_log(host)}")

    def _boot_log(self, host: str) -> str:
        lines = (self.layout.host(host) / "log" / "boot.log").read_text().strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _kill(self, host: str) -> None:
        pid = self.pid(host)
        if pid is not None:
            os.kill(pid, 9)
            wait_for(lambda: not self.alive(host), f"the end of {host}")
        (self.layout.host(host) / "pid.json").unlink(missing_ok=True)

    def on(self, host: str, *argv: str, check: bool = True, timeout: float = _SECONDS) -> Done:
        """Runs a command inside a host, as root and without ssh."""
        done = subprocess.run(
            self.enter(host, *argv), capture_output=True, text=True, env=_ENV, timeout=timeout, check=False
        )
        if check and done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise SiteError(f"{host}: {' '.join(argv)}: exit code {done.returncode}: {said}")
        return done

    def enter(self, host: str, *argv: str) -> list[str]:
        """The command line that runs `argv` in the host, at home there: `~` must not be the machine's own."""
        pid = self.pid(host)
        if pid is None:
            raise SiteError(f"{host} is powered off")
        words = ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "--wdns=/", "--"]
        return [*words, "env", f"HOME={self.home(host)}", *argv]

    def home(self, host: str) -> Path:
        """Root's home in a host."""
        return self.layout.host(host) / "home" / "root"

    def daemon(self, host: str, *argv: str, log: str) -> None:
        """Starts a program that stays, in the background of the host."""
        with (self.layout.host(host) / "log" / log).open("a") as out:
            subprocess.Popen(
                self.enter(host, "setsid", "-f", *argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=_ENV,
                start_new_session=True,
            ).wait()

    def ssh(self, host: str, *argv: str, check: bool = True, timeout: float = _SECONDS) -> Done:
        """Runs a command in a host the way a user would."""
        words = ["ssh", "-F", str(self.layout.ssh_config), "-o", "ConnectTimeout=5", host, *argv]
        return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=check)

    # ---- faults

    def poweroff(self, host: str) -> None:
        """Pulls the plug: first the cable, so that nobody hears the dying connections."""
        self.unplug(host)
        self._kill(host)

    def unplug(self, host: str) -> None:
        """The cable out: packets go nowhere, nobody is told."""
        wires.ip("link", "set", self.layout.wire(host), "down")

    def plug(self, host: str) -> None:
        wires.ip("link", "set", self.layout.wire(host), "up")


def wait_for(what: Callable[[], Any], name: str, seconds: float = _SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise SiteError(f"waited {seconds:g} s for {name} in vain")


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One at a time builds or removes labs."""
    handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(base: Path) -> Layout | None:
    found = read_json(base / "lab.json")
    if not isinstance(found, dict):
        return None
    return Layout(base, int(found["subnet"]), msgspec.convert(found["options"], Options))


def _write(plan: Layout) -> None:
    write_json(plan.base / "lab.json", {"schema": 1, "subnet": plan.subnet, "options": plan.options}, durable=True)


def _merge(found: Layout, options: Options) -> Layout:
    """A lab grows by what is asked for and shrinks only by `down`."""
    old = found.options
    for what in ("slurm", "docker"):
        if getattr(options, what) and not getattr(old, what):
            raise SiteError(f"lab {old.name} was made without --{what}: take it down first, or give another --name")
    grown = Options(
        name=old.name,
        nodes=max(old.nodes, options.nodes) if not old.slurm else old.nodes,
        slurm=old.slurm,
        docker=old.docker,
        gpus=old.gpus,
        binds=tuple(sorted({*old.binds, *options.binds})),
    )
    return Layout(found.base, found.subnet, grown)


def _claim(base: Path, options: Options) -> Layout:
    """A free subnet; whoever makes the bridge has it."""
    if layout.is_hidden(base):
        raise SiteError(f"{base}: hosts have their own {', '.join(layout.PRIVATE)}: keep labs elsewhere")
    for subnet in range(1, 255):
        plan = Layout(base, subnet, options)
        if wires.ip("link", "add", plan.bridge, "type", "bridge", check=False).returncode == 0:
            base.mkdir(parents=True, exist_ok=True)
            base.chmod(0o755)
            _write(plan)
            return plan
    raise SiteError("no free subnet for another lab; `python -m lab list` shows those there are")


def labs(home: Path = layout.HOME) -> list[Lab]:
    """All labs of this machine."""
    return [Lab(plan) for plan in (_read(file.parent) for file in sorted(home.glob("*/lab.json"))) if plan]
