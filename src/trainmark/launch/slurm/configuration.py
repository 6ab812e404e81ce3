"""Files of a new Slurm cluster, from what its hosts have. Pure; they may be changed before use."""

from __future__ import annotations

import re
from typing import Any

import msgspec

# A kernel may keep a little more for itself after the next boot; a node with less than was said is not used.
_MEMORY_SHARE = 0.98
_LEAST = (22, 5)


class ClusterHost(msgspec.Struct, frozen=True):
    """One host: how it is reached, and what it reported."""

    address: str
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.facts["hostname"])


class SlurmCluster(msgspec.Struct, frozen=True):
    name: str
    partition: str
    controller: ClusterHost
    nodes: tuple[ClusterHost, ...]
    spool: str

    @property
    def everyone(self) -> list[ClusterHost]:
        names = {node.name for node in self.nodes}
        return [*self.nodes, *([] if self.controller.name in names else [self.controller])]


def hindrances(cluster: SlurmCluster) -> list[str]:
    """What must be mended by hand before daemons can start."""
    found = []
    names = [node.name for node in cluster.nodes]
    for name in sorted({name for name in names if names.count(name) > 1}):
        found.append(f"{name}: several hosts call themselves so; give each a name of its own")
    for member in cluster.everyone:
        wanted = {"munged", *(["slurmd"] if member in cluster.nodes else []), "srun"}
        if member.name == cluster.controller.name:
            wanted.add("slurmctld")
        missing = sorted(name for name in wanted if not member.facts["programs"].get(name))
        if missing:
            found.append(
                f"{member.name}: no {', '.join(missing)}; install munge, slurmd and, on the controller, slurmctld"
            )
        if member.facts["accounts"]["munge"] is None:
            found.append(f"{member.name}: no account munge")
    versions = {member.facts["version"] for member in cluster.everyone if member.facts["version"]}
    if len(versions) > 1:
        found.append(f"versions differ: {', '.join(sorted(versions))}; hosts need the same one")
    return found


def user(cluster: SlurmCluster) -> str:
    """Slurm's own account where all hosts have the same, else root."""
    found = {member.facts["accounts"]["slurm"] for member in cluster.everyone}
    return "slurm" if len(found) == 1 and None not in found else "root"


def tracking(cluster: SlurmCluster) -> tuple[str, str]:
    """`cgroup` or `linuxproc`, and why."""
    for member in cluster.nodes:
        if member.facts["cgroups"] is None:
            return "linuxproc", f"{member.name} mounts no cgroups that Slurm could use"
        if not member.facts["systemd"]:
            return "linuxproc", f"{member.name} runs no systemd, which Slurm needs to be given cgroups"
    return "cgroup", "all nodes offer cgroups"


def slurm_conf(cluster: SlurmCluster) -> str:
    how, why = tracking(cluster)
    head, owner = cluster.controller, user(cluster)
    lines = [
        "# Made by `trainmark slurm init`; the same file belongs on every host.",
        f"ClusterName={cluster.name}",
        f"SlurmctldHost={head.name}({head.address})",
        f"SlurmUser={owner}",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        "MpiDefault=none",
        "ReturnToService=1",
        f"StateSaveLocation={cluster.spool}/slurmctld",
        f"SlurmdSpoolDir={cluster.spool}/slurmd.%n",
        f"SlurmctldPidFile={cluster.spool}/slurmctld/slurmctld.pid",
        "SlurmdPidFile=/run/slurmd.pid",
        "SlurmctldLogFile=/var/log/slurmctld.log",
        "SlurmdLogFile=/var/log/slurmd.log",
        "SlurmdTimeout=60",
        "InactiveLimit=0",
        "PropagateResourceLimits=NONE",
        "SchedulerType=sched/backfill",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "JobAcctGatherType=jobacct_gather/linux",
        f"# Tracking by {how}: {why}.",
        f"ProctrackType=proctrack/{how}",
    ]
    if how == "cgroup":
        lines.append("TaskPlugin=task/cgroup,task/affinity")
    else:
        # Without cgroups only looking at it keeps a job within its memory.
        lines += ["TaskPlugin=task/none", "JobAcctGatherFrequency=task=5", "JobAcctGatherParams=OverMemoryKill"]
    kinds = sorted({kind.partition(":")[0] for node in cluster.nodes for kind, files in _devices(node) if files})
    if kinds:
        lines.append(f"GresTypes={','.join(kinds)}")
    lines += [_node_line(node) for node in cluster.nodes]
    names = ",".join(node.name for node in cluster.nodes)
    lines.append(
        f"PartitionName={cluster.partition} Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO"
    )
    return "\n".join(lines) + "\n"


def _node_line(node: ClusterHost) -> str:
    """As slurmd itself describes the host, where it could be asked."""
    facts = node.facts
    fields = {"CPUs": str(facts["cpus"])}
    if facts["node_line"]:
        reported = dict(re.findall(r"(\w+)=(\S+)", facts["node_line"]))
        names = ("CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
        fields = {name: reported[name] for name in names if name in reported}
    fields["RealMemory"] = str(int(facts["memory_mb"] * _MEMORY_SHARE))
    devices = ",".join(f"{kind}:{len(files)}" for kind, files in _devices(node) if files)
    if devices:
        fields["Gres"] = devices
    shown = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"NodeName={node.name} NodeAddr={node.address} {shown} State=UNKNOWN"


def _devices(node: ClusterHost) -> list[tuple[str, list[str]]]:
    return sorted(node.facts["devices"].items())


def gres_conf(cluster: SlurmCluster) -> str:
    lines = ["# Made by `trainmark slurm init`: one line per device file."]
    for node in cluster.nodes:
        for kind, files in _devices(node):
            name, _, brand = kind.partition(":")
            typed = f" Type={brand}" if brand else ""
            lines += [f"NodeName={node.name} Name={name}{typed} File={file}" for file in files]
    return "\n".join(lines) + "\n"


def cgroup_conf(cluster: SlurmCluster) -> str:
    how, why = tracking(cluster)
    lines = ["# Made by `trainmark slurm init`.", f"# Tracking by {how}: {why}."]
    if how == "cgroup":
        return "\n".join([*lines, "ConstrainCores=yes", "ConstrainRAMSpace=yes", "ConstrainDevices=yes"]) + "\n"
    # slurmd wants a plug-in to be named even where it is not used; that of version 1 needs nothing mounted.
    return "\n".join([*lines, "CgroupPlugin=cgroup/v1"]) + "\n"


def steps(cluster: SlurmCluster) -> str:
    """What `--apply` does, for those who would rather do it themselves."""
    hosts = " ".join(member.name for member in cluster.everyone)
    nodes = " ".join(node.name for node in cluster.nodes)
    head, owner = cluster.controller.name, user(cluster)
    having = [member.name for member in cluster.everyone if member.facts["munge_key"]]
    keys = f"There is a key on {', '.join(having)}: use that of {having[0]}." if having else "No host has a key yet."
    return f"""\
Hosts: {hosts}. Controller: {head}. Nodes: {nodes}. Slurm's account: {owner}.

1. munge. {keys}
   Make one on {head}:        umask 077; head -c 1024 /dev/urandom > /etc/munge/munge.key
   Copy it to every host, as it is, over ssh; it is a secret: owner munge, mode 0400, its folder 0700.
   On every host:             systemctl restart munge    (without systemd: runuser -u munge -- munged)
   See that it works:         munge -n | ssh HOST unmunge
2. The files slurm.conf, gres.conf and cgroup.conf, the same on every host, in /etc/slurm.
3. On {head}:                 mkdir -p {cluster.spool}/slurmctld; chown {owner} {cluster.spool}/slurmctld
                              systemctl restart slurmctld    (without systemd: slurmctld)
4. On each node:              systemctl restart slurmd       (without systemd: slurmd)
5. sinfo shows every node idle. A node that is not:  scontrol show node NAME | grep Reason
"""


def files(cluster: SlurmCluster) -> dict[str, str]:
    return {
        "slurm.conf": slurm_conf(cluster),
        "gres.conf": gres_conf(cluster),
        "cgroup.conf": cgroup_conf(cluster),
    }
