"""`trainmark slurm init`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.cli import common, terminal
from trainmark.errors import UserError
from trainmark.spec import notation
from trainmark.spec.case_id import is_name

if TYPE_CHECKING:
    from trainmark.launch.slurm.configuration import SlurmCluster

EPILOG = """\
examples:
  trainmark slurm init --hosts slaveip.txt --controller masterip.txt           write files to look at
  trainmark slurm init --hosts slaveip.txt --controller head --apply           and set the hosts up (as root)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="what", required=True, metavar="init")
    init = verbs.add_parser("init", help="ask hosts what they have and write the files of a cluster")
    init.add_argument("--hosts", type=Path, required=True, metavar="FILE", help="the nodes: a host or address per line")
    init.add_argument(
        "--controller", required=True, metavar="HOST", help="where slurmctld runs, or a file that names it"
    )
    common.add_folder(init, "where files go (default: ./slurm)", Path("slurm"))
    init.add_argument("--name", default="trainmark", help="of the cluster (default: trainmark)")
    init.add_argument("--partition", default="main", help="its one partition (default: main)")
    init.add_argument("--spool", default="/var/spool", metavar="DIR", help="on the hosts (default: /var/spool)")
    init.add_argument(
        "--gres", action="append", default=[], metavar="KIND=GLOB", help="more devices, as in `gpu:mtt=/dev/mtgpu.*`"
    )
    init.add_argument("--user", help="for ssh (default: that of your ssh configuration)")
    init.add_argument("--port", type=int, help="for ssh")
    init.add_argument("--ssh-config", metavar="FILE", help="for ssh")
    init.add_argument("--node-python", default="python3", help="on the hosts, 3.7 or newer (default: python3)")
    init.add_argument(
        "--apply", action="store_true", help="set the hosts up; ends when every node is idle, or says why not"
    )


def call(args: argparse.Namespace) -> int:
    from trainmark.launch.slurm import configuration as slurm_conf
    from trainmark.launch.slurm import setup as slurm_setup

    nodes, controller = notation.read_host_file(args.hosts), _controller(args.controller)
    gres = _gres(args.gres)
    _check_names(args, nodes, controller)
    config = args.ssh_config and str(Path(args.ssh_config).expanduser().resolve())
    site = slurm_setup.reached_by_ssh(args.name, nodes, args.node_python, user=args.user, port=args.port, config=config)
    with slurm_setup.connected(site, list(dict.fromkeys([*nodes, controller]))) as hosts:
        cluster = slurm_setup.look(hosts, nodes, controller, args.name, args.partition, args.spool, gres)
        _write(args.output, slurm_conf.files(cluster), slurm_conf.steps(cluster))
        _show(cluster, args.output)
        if args.apply:
            slurm_setup.apply(hosts, cluster, terminal.line)
            return 0
    for text in slurm_conf.hindrances(cluster):
        terminal.line(f"to be mended: {text}")
    terminal.line(f"look at {args.output}, then follow {args.output}/STEPS.txt or repeat with --apply")
    return 0


def _controller(text: str) -> str:
    """A host, or the first of a file such as masterip.txt."""
    return notation.read_host_file(Path(text))[0] if Path(text).is_file() else text


def _check_names(args: argparse.Namespace, nodes: list[str], controller: str) -> None:
    for host in [*nodes, controller]:
        if not is_name(host.replace(":", "")):
            raise UserError(f"{args.hosts}: found {host!r}, allowed is a host name or an address")
    for option in ("name", "partition"):
        if not is_name(getattr(args, option)):
            raise UserError(f"--{option} {getattr(args, option)}: allowed are letters, digits, - and _")
    if not args.spool.startswith("/") or not args.spool.isprintable() or " " in args.spool:
        raise UserError(f"--spool {args.spool}: allowed is an absolute path without spaces")


def _gres(texts: list[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        kind, equals, pattern = text.partition("=")
        if not equals or not pattern.startswith("/dev/") or not is_name(kind.replace(":", "-")):
            raise UserError(f"--gres {text}: expected KIND=GLOB below /dev, as in `gpu:mtt=/dev/mtgpu.*`")
        found[kind] = pattern
    return found


def _write(folder: Path, files: dict[str, str], steps: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {**files, "STEPS.txt": steps}.items():
        (folder / name).write_text(text)


def _show(cluster: SlurmCluster, folder: Path) -> None:
    from trainmark.cli.list import table
    from trainmark.launch.slurm import configuration as slurm_conf

    rows = []
    for node in cluster.nodes:
        devices = ", ".join(f"{len(files)} {kind}" for kind, files in sorted(node.facts["devices"].items()) if files)
        row = {
            "node": node.name,
            "address": node.address,
            "cpus": str(node.facts["cpus"]),
            "memory": f"{node.facts['memory_mb'] / 1024:.1f} GiB",
            "devices": devices or "–",
            "slurmd": node.facts["version"] or "not installed",
        }
        rows.append(row)
    terminal.out(table(rows))
    how, why = slurm_conf.tracking(cluster)
    terminal.line(f"controller {cluster.controller.name}; tracking by {how}: {why}")
    terminal.line(f"written: {folder}/slurm.conf, gres.conf, cgroup.conf, STEPS.txt")
