"""A real Slurm over a lab's hosts: slurmctld, slurmdbd and MariaDB on the head, munge on all, slurmd on each node."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from lab.layout import HEAD, Layout
from trainmark.errors import SiteError

if TYPE_CHECKING:
    from lab.lab import Lab

_CPUS, _MEMORY_MB = 2, 4000
_SOCKET = "/run/mysqld/mysqld.sock"
_START_SECONDS = 180.0
# Short times: a lab is there to see nodes fail. Jobs over their memory are ended by slurmd itself, without cgroups.
_CONF = """\
ClusterName={name}
SlurmctldHost=ctl({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=1
StateSaveLocation={base}/ctl/spool/state
SlurmdSpoolDir={base}/%n/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
SlurmctldTimeout=30
SlurmdTimeout=10
InactiveLimit=0
MinJobAge=300
KillWait=5
MessageTimeout=20
TCPTimeout=5
BatchStartTimeout=30
JobRequeue=1
PropagateResourceLimits=NONE
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment,job_script,job_env
SlurmdParameters=config_overrides
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=10 PreemptMode=off
PartitionName=spare Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=1 PreemptMode=requeue
"""
_DBD = """\
AuthType=auth/munge
DbdHost=ctl
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
LogFile=/var/log/slurmdbd.log
PidFile=/run/slurmdbd.pid
"""


def conf(plan: Layout) -> str:
    """slurm.conf of the lab."""
    gres = f" Gres=gpu:fake:{plan.options.gpus}" if plan.options.gpus else ""
    node = f"CPUs={_CPUS} CoresPerSocket={_CPUS} RealMemory={_MEMORY_MB}{gres} State=UNKNOWN"
    return _CONF.format(
        name=cluster(plan),
        address=plan.address(HEAD),
        base=plan.base,
        nodes="\n".join(f"NodeName={host} {node}" for host in plan.nodes),
    )


def cluster(plan: Layout) -> str:
    return plan.options.name.replace("-", "_")


def write(plan: Layout) -> None:
    """The files of Slurm and munge, the same on all hosts."""
    etc, munge = plan.slurm_etc, plan.munge_etc
    for folder in (etc, munge, plan.host(HEAD) / "spool" / "state"):
        folder.mkdir(parents=True, exist_ok=True)
    (etc / "slurm.conf").write_text(conf(plan))
    # slurmd refuses to start without a cgroup plug-in; this one needs nothing mounted while no controller is in use.
    (etc / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    gpus = plan.options.gpus
    (etc / "gres.conf").write_text(f"Name=gpu Type=fake File=/dev/fakegpu[0-{gpus - 1}]\n" if gpus else "")
    (etc / "slurmdbd.conf").write_text(_DBD)
    (etc / "slurmdbd.conf").chmod(0o600)
    key = munge / "munge.key"
    if not key.exists():
        key.write_bytes(os.urandom(128))
    for path in (munge, key):
        shutil.chown(path, "munge", "munge")
    munge.chmod(0o700)
    key.chmod(0o400)


def start(lab: Lab) -> None:
    """Starts what does not run yet; returns when every node is idle."""
    for host in lab.layout.hosts:
        start_munge(lab, host)
    _start_database(lab)
    if not running(lab, HEAD, "slurmctld"):
        lab.on(HEAD, "slurmctld")
    for host in lab.nodes:
        start_node(lab, host)
    _write_client(lab)
    from lab.lab import wait_for

    try:
        wait_for(lambda: set(states(lab).values()) == {"idle"}, "all Slurm nodes to be idle", _START_SECONDS)
    except SiteError as error:
        log = (lab.layout.host(HEAD) / "log" / "slurmctld.log").read_text().splitlines()
        raise SiteError(f"{error}; nodes: {states(lab)}; slurmctld says: {' / '.join(log[-3:])}") from None


def client_conf(plan: Layout) -> Path:
    """A slurm.conf with which the machine itself can use the lab's Slurm; `start` writes it."""
    return plan.base / "slurm-client.conf"


def _write_client(lab: Lab) -> None:
    """The machine has no munge of its own: it uses the head's, and knows it by its address alone."""
    plan = lab.layout
    socket = munge_socket(lab)
    lines = [line for line in conf(plan).splitlines() if not line.startswith("AccountingStorageHost=")]
    lines += [f"AuthInfo=socket={socket}", f"AccountingStoragePass={socket}"]
    lines.append(f"AccountingStorageHost={plan.address(HEAD)}")
    client_conf(plan).write_text(with_addresses(plan, "\n".join(lines)) + "\n")


def munge_socket(lab: Lab) -> str:
    """Of the head, as this machine sees it."""
    return f"/proc/{lab.pid(HEAD)}/root/run/munge/munge.socket.2"


def with_addresses(plan: Layout, text: str) -> str:
    """A slurm.conf for a machine that does not know the nodes by their names."""
    for host in plan.nodes:
        text = text.replace(f"NodeName={host} ", f"NodeName={host} NodeAddr={plan.address(host)} ")
    return text


def states(lab: Lab) -> dict[str, str]:
    """Node → state as sinfo gives it."""
    said = lab.on(HEAD, "sinfo", "-h", "-N", "-p", "main", "-o", "%N %t", check=False).stdout
    return dict(line.split() for line in said.splitlines())


def start_munge(lab: Lab, host: str) -> None:
    if running(lab, host, "munged"):
        return
    lab.on(host, "install", "-d", "-o", "munge", "-g", "munge", "/run/munge", "/var/log/munge", "/var/lib/munge")
    lab.on(host, "runuser", "-u", "munge", "--", "munged", "--key-file=/etc/munge/munge.key")


def start_node(lab: Lab, host: str) -> None:
    if not running(lab, host, "slurmd"):
        lab.on(host, "slurmd", "-N", host)


def running(lab: Lab, host: str, program: str) -> bool:
    """Whether the host runs a program of that name; its processes are found in its own /proc."""
    return lab.on(host, "pgrep", "-x", program, check=False).returncode == 0


def _start_database(lab: Lab) -> None:
    from lab.lab import wait_for

    data = lab.layout.host(HEAD) / "mysql"
    if not (data / "mysql").is_dir():
        data.mkdir(exist_ok=True)
        shutil.chown(data, "mysql", "mysql")
        lab.on(HEAD, "mariadb-install-db", "--user=mysql", f"--datadir={data}", "--skip-test-db", timeout=120)
    if not running(lab, HEAD, "mariadbd"):
        lab.on(HEAD, "install", "-d", "-o", "mysql", "/run/mysqld")
        lab.daemon(HEAD, *_mariadb(data), log="mariadb.log")
    wait_for(lambda: lab.on(HEAD, "mariadb-admin", "ping", check=False).returncode == 0, "MariaDB", _START_SECONDS)
    lab.on(HEAD, "mariadb", "-e", "create database if not exists slurm_acct_db")
    if not running(lab, HEAD, "slurmdbd"):
        lab.on(HEAD, "slurmdbd")
    list_clusters = ("sacctmgr", "-n", "-P", "list", "cluster", "format=cluster")
    wait_for(lambda: lab.on(HEAD, *list_clusters, check=False).returncode == 0, "slurmdbd", _START_SECONDS)
    if cluster(lab.layout) not in lab.on(HEAD, *list_clusters).stdout.split():
        lab.on(HEAD, "sacctmgr", "-i", "-Q", "add", "cluster", cluster(lab.layout))


def _mariadb(data: Path) -> list[str]:
    return [
        "mariadbd",
        "--no-defaults",
        "--user=mysql",
        f"--datadir={data}",
        f"--socket={_SOCKET}",
        "--pid-file=/run/mysqld/mysqld.pid",
        "--skip-networking",
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",
    ]
