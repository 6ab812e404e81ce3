"""How hosts are entered: keys, sshd, accounts and the ssh configuration that knows them all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.layout import HEAD, UID, USER, Layout

_SSHD = """\
Port 22
ListenAddress {address}
HostKey {root}/ssh/host_key
PidFile /run/sshd.pid
AuthorizedKeysFile {root}/ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
PrintMotd no
PrintLastLog no
MaxStartups 200:30:400
MaxSessions 200
Subsystem sftp internal-sftp
"""
_CLIENT = """\
Host {hosts}
  User root
  Port 22
  IdentityFile {base}/client/key
  IdentitiesOnly yes
  UserKnownHostsFile {base}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
"""


def write(lab: Layout) -> None:
    """Keys once, everything else anew: the same content unless the hosts have changed."""
    (lab.base / "client").mkdir(exist_ok=True)
    _key(lab.base / "client" / "key", "lab")
    for host in lab.hosts:
        _host(lab, host)
    everyone = [HEAD, *lab.nodes]
    names = "".join(f"{lab.address(host)} {host}\n" for host in everyone)
    (lab.base / "hosts").write_text(f"127.0.0.1 localhost\n{names}")
    known = [f"{host},{lab.address(host)} {_public(lab, host)}\n" for host in lab.hosts]
    (lab.base / "known_hosts").write_text("".join(known))
    aliases = [f"Host {host}\n  HostName {lab.address(host)}\n  HostKeyAlias {host}\n" for host in lab.hosts]
    lab.ssh_config.write_text("".join(aliases) + _CLIENT.format(hosts=" ".join(lab.hosts), base=lab.base))
    # Hosts reach nothing but each other.
    (lab.base / "resolv.conf").write_text("")
    switch = Path("/etc/nsswitch.conf")
    lines = switch.read_text().splitlines() if switch.exists() else ["passwd: files", "group: files", "hosts: files"]
    kept = ["hosts: files" if line.startswith("hosts:") else line for line in lines]
    (lab.base / "nsswitch.conf").write_text("\n".join(kept) + "\n")


def _host(lab: Layout, host: str) -> None:
    root = lab.host(host)
    for name in ("tmp", "ssh", "log", "spool", "dev", "home/root", f"home/{USER}"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "hostname").write_text(host + "\n")
    _key(root / "ssh" / "host_key", host)
    public = (lab.base / "client" / "key.pub").read_text()
    (root / "ssh" / "authorized_keys").write_text(public)
    (root / "ssh" / "sshd_config").write_text(_SSHD.format(address=lab.address(host), root=root))
    (root / "passwd").write_text(_passwd(root))
    (root / "group").write_text(Path("/etc/group").read_text() + f"{USER}:x:{UID}:\n")
    os.chown(root / "home" / USER, UID, UID)
    inner = root / "home" / "root" / ".ssh"
    inner.mkdir(exist_ok=True, mode=0o700)
    (inner / "config").write_text(f"Include {lab.ssh_config}\n")


def _passwd(root: Path) -> str:
    """The machine's accounts, with homes of the host's own and one ordinary user more."""
    lines = []
    for line in Path("/etc/passwd").read_text().splitlines():
        fields = line.split(":")
        if fields[0] == "root":
            fields[5] = str(root / "home" / "root")
        if fields[0] != USER:
            lines.append(":".join(fields))
    return "\n".join([*lines, f"{USER}:*:{UID}:{UID}::{root}/home/{USER}:/bin/bash", ""])


def _key(path: Path, comment: str) -> None:
    if not path.exists():
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def _public(lab: Layout, host: str) -> str:
    return " ".join((lab.host(host) / "ssh" / "host_key.pub").read_text().split()[:2])
