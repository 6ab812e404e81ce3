"""A stand-in for `horovodrun`, whose package does not build with today's PyTorch.

`python -m lab.horovodrun` takes the options that a user would give, tries every host over ssh as the real
one does, and then really starts the ranks through `mpirun`, with the whole environment handed to all of them. Nothing
of Horovod itself is in it.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from trainmark.errors import UserError

_SSH_SECONDS = 60.0
# Names that mean something to one host or one process only.
_OWN = re.compile(r"BASH_FUNC|^OLDPWD$|^PWD$|^HOSTNAME$|^_$|^SLURM_|^OMPI_")


def main(argv: list[str]) -> NoReturn:
    args = _parser().parse_args(argv)
    try:
        hosts = _hosts(args)
        words = mpirun(hosts, args)
        _try_all(list(hosts), args.ssh_port)
    except UserError as error:
        sys.exit(f"horovodrun (stand-in): {error}")
    os.execvp(words[0], words)  # noqa: S606


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="horovodrun", allow_abbrev=False)
    parser.add_argument("-np", "--num-proc", type=int, required=True)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-H", "--hosts")
    where.add_argument("-hostfile", "--hostfile", type=Path)
    parser.add_argument("-p", "--ssh-port", type=int)
    parser.add_argument("--network-interface", "--network-interfaces")
    parser.add_argument("--mpi", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser


def _hosts(args: argparse.Namespace) -> dict[str, int]:
    if args.hosts:
        pairs = [text.partition(":")[::2] for text in args.hosts.split(",")]
    else:
        lines = [line.split() for line in args.hostfile.read_text().splitlines() if line.strip()]
        pairs = [(line[0], line[1].removeprefix("slots=")) for line in lines]
    hosts = {host: int(slots or 1) for host, slots in pairs}
    if sum(hosts.values()) < args.num_proc:
        raise UserError(f"{args.num_proc} processes on {sum(hosts.values())} slots")
    return hosts


def _try_all(hosts: list[str], port: int | None) -> None:
    """Every other host must let itself be entered."""
    here = {os.uname().nodename, "localhost"}
    options = ["-o", "PasswordAuthentication=no"]
    options += ["-p", str(port)] if port else []
    for host in hosts:
        if host not in here:
            done = subprocess.run(["ssh", *options, host, "true"], timeout=_SSH_SECONDS, check=False)
            if done.returncode:
                raise UserError(f"ssh to {host} ended with code {done.returncode}")


def mpirun(hosts: dict[str, int], args: argparse.Namespace) -> list[str]:
    """What the ranks are started by."""
    where = ",".join(f"{host}:{slots}" for host, slots in hosts.items())
    words = ["mpirun", "--allow-run-as-root", "-np", str(args.num_proc), "-H", where]
    words += ["-bind-to", "none", "-map-by", "slot", "-mca", "pml", "ob1", "-mca", "btl", "^openib"]
    if args.ssh_port:
        words += ["-mca", "plm_rsh_args", f"-p {args.ssh_port}"]
    if args.network_interface:
        for name in ("btl_tcp_if_include", "oob_tcp_if_include"):
            words += ["-mca", name, args.network_interface]
    exported = sorted(name for name in os.environ if not _OWN.search(name))
    return [*words, *(word for name in exported for word in ("-x", name)), *args.command]


if __name__ == "__main__":
    main(sys.argv[1:])
