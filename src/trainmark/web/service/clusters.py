"""Making a Slurm cluster of a site's bare ssh hosts, as `trainmark slurm init` does, and a site of it for jobs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trainmark.errors import UserError
from trainmark.launch.slurm import configuration, setup
from trainmark.store.files import write_whole
from trainmark.web.server import Server
from trainmark.web.service import audit, database, sites
from trainmark.web.service.errors import Conflict
from trainmark.web.service.records import Name, Principal

HostText = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}\Z", max_length=255)]
Folder = Annotated[str, Meta(pattern=r"^/[A-Za-z0-9._/-]{0,200}\Z", max_length=201)]
Devices = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9:_-]{0,63}\Z", max_length=64)]
DeviceFiles = Annotated[str, Meta(pattern=r"^/dev/[A-Za-z0-9_./*?\[\]-]{1,200}\Z", max_length=205)]


class AskedCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`apply`: set the hosts up; else they are only asked. `site`: what the site of the cluster is called, for which
    `shared_dir` is a folder that this machine and all nodes see. `gres`: kinds of devices and their files."""

    controller: HostText
    apply: bool = False
    name: Name = "trainmark"
    partition: Name = "main"
    spool: Folder = "/var/spool"
    gres: dict[Devices, DeviceFiles] = {}
    site: Name | None = None
    shared_dir: Folder | None = None


class ClusterNode(msgspec.Struct, frozen=True):
    name: str
    cpus: int
    memory_mb: int
    devices: dict[str, int]
    # None: slurmd is not installed.
    slurm: str | None


class MadeCluster(msgspec.Struct, frozen=True):
    """What the hosts have, the files made of it, and the steps by hand. `hindrances`: what must be mended before.
    `done`: what was done, where that was asked for; `site`: where jobs can be sent now."""

    nodes: list[ClusterNode]
    controller: str
    tracking: str
    hindrances: list[str]
    files: dict[str, str]
    steps: str
    done: list[str]
    site: str | None


def slurm_init(server: Server, asker: Principal, name: str, asked: AskedCluster, address: str) -> MadeCluster:
    found = sites.load(server.home, name)
    if found.launcher != "ssh" or not found.hosts:
        raise UserError(f"site `{name}`: only hosts that are reached by ssh are made a Slurm cluster")
    if asked.site is not None:
        _check_site(server, asked)
    done: list[str] = []
    everyone = list(dict.fromkeys([*found.hosts, asked.controller]))
    with setup.connected(found, everyone) as hosts:
        given = (asked.controller, asked.name, asked.partition, asked.spool, dict(asked.gres))
        cluster = setup.look(hosts, list(found.hosts), *given)
        if asked.apply:
            setup.apply(hosts, cluster, done.append)
    files = configuration.files(cluster)
    made = asked.site if asked.apply else None
    if made is not None:
        _write_site(server, asked, [node.name for node in cluster.nodes], files["slurm.conf"])
    if asked.apply:
        with database.writing(server.engine) as connection:
            audit.note(connection, asker.name, "site.slurm", f"{name} {made or ''}".strip(), address)
    return MadeCluster(
        nodes=[_node(one.name, one.facts) for one in cluster.nodes],
        controller=cluster.controller.name,
        tracking=": ".join(configuration.tracking(cluster)),
        hindrances=configuration.hindrances(cluster),
        files=files,
        steps=configuration.steps(cluster),
        done=done,
        site=made,
    )


def _node(name: str, facts: dict[str, Any]) -> ClusterNode:
    devices = {kind: len(files) for kind, files in facts["devices"].items() if files}
    return ClusterNode(name, facts["cpus"], facts["memory_mb"], devices, facts["version"])


def _check_site(server: Server, asked: AskedCluster) -> None:
    if asked.site in sites.names(server.home):
        raise Conflict(f"site: there is a site `{asked.site}` already")
    if asked.shared_dir is None:
        raise UserError("shared_dir: a site of the cluster needs a folder that this machine and all nodes see")


def _write_site(server: Server, asked: AskedCluster, nodes: list[str], conf: str) -> None:
    """This machine uses the cluster by its files; it needs the key of its munge, too."""
    file = server.home.sites / f"{asked.site}.slurm.conf"
    write_whole(file, conf.encode(), durable=True)
    content = {
        "schema": 1,
        "name": asked.site,
        "launcher": "slurm",
        "hosts": nodes,
        "slurm": {"conf": str(file), "partition": asked.partition},
        "shared_dir": asked.shared_dir,
    }
    write_whole(server.home.sites / f"{asked.site}.yaml", msgspec.yaml.encode(content), durable=True)
