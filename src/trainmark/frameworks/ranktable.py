"""Rank tables and host files, in the words of those who read them. Pure: a cluster in, text out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from trainmark.errors import UserError
from trainmark.frameworks.cluster import Cluster, Device, Server, with_devices

VERSIONS = ("1.0", "1.2")
DEFAULT_PORT = 2222
# In the folder of each node, where trainmark makes the table itself.
RANK_TABLE = "rank_table.json"


def hostfile(hosts: Sequence[str], slots: int) -> str:
    """Open MPI's and Horovod's."""
    return "".join(f"{host} slots={slots}\n" for host in hosts)


def group_list(cluster: Cluster) -> dict[str, Any]:
    """The first form of Ascend's rank table: an instance for each device. All values are text."""
    total = str(with_devices(cluster).world)
    most = max(server.slots for server in cluster.servers)
    instances = [
        {"devices": [_device(device)], "rank_id": str(device.rank), "server_id": server.address}
        for server in cluster.servers
        for device in server.devices
    ]
    group = {"device_num": total, "server_num": str(len(cluster.servers)), "group_name": "", "instance_count": total}
    return {
        "board_id": "0x0020",
        "chip_info": "910",
        "deploy_mode": "lab",
        "group_count": "1",
        "group_list": [{**group, "instance_list": instances}],
        "para_plane_nic_location": "device",
        "para_plane_nic_name": [f"eth{number}" for number in range(most)],
        "para_plane_nic_num": str(most),
        "status": "completed",
    }


def group_list_pod(cluster: Cluster, job: str = "job") -> dict[str, Any]:
    """The form that platforms hand out: an instance for each host, which finds itself by `pod_name`."""
    with_devices(cluster)
    instances = [
        {
            "pod_name": f"{job}-worker-{number}",
            "server_id": server.address,
            "devices": [_device(device) for device in server.devices],
        }
        for number, server in enumerate(cluster.servers)
    ]
    group = {"group_name": job, "device_count": str(cluster.world), "instance_count": str(len(instances))}
    return {"status": "completed", "group_count": "1", "group_list": [{**group, "instance_list": instances}]}


def server_list(cluster: Cluster, version: str) -> dict[str, Any]:
    """The form of today: 1.0, or 1.2 for super pods."""
    with_devices(cluster)
    if version not in VERSIONS:
        raise UserError(f"--version: found {version!r}, allowed with server_list: {' or '.join(VERSIONS)}")
    pods = version == "1.2"
    servers = [_server_in_pod(server) if pods else _server(server) for server in cluster.servers]
    table = {"version": version, "server_count": str(len(servers)), "server_list": servers}
    if pods:
        table["super_pod_list"] = _super_pods(cluster)
    return {**table, "status": "completed"}


def _device(device: Device) -> dict[str, str]:
    return {"device_id": str(device.id), "device_ip": device.ip}


def _server(server: Server) -> dict[str, Any]:
    devices = [{**_device(device), "rank_id": str(device.rank)} for device in server.devices]
    return {"server_id": server.address, "device": devices, "host_nic_ip": "reserve"}


def _server_in_pod(server: Server) -> dict[str, Any]:
    if any(device.super_id is None for device in server.devices):
        raise UserError(
            f"{server.host}: the numbers of its devices in their super pod are missing, version 1.2 needs them: "
            f"give `fabric: {{{server.host}: {{super_devices: […]}}}}` in the site"
        )
    devices = [
        {
            "device_id": str(device.id),
            "super_device_id": device.super_id,
            "device_ip": device.ip,
            "rank_id": str(device.rank),
        }
        for device in server.devices
    ]
    return {"server_id": server.host, "host_ip": server.address, "device": devices}


def _super_pods(cluster: Cluster) -> list[dict[str, Any]]:
    pods: dict[str, list[dict[str, str]]] = {}
    for server in cluster.servers:
        pods.setdefault(server.super_pod, []).append({"server_id": server.host})
    return [{"super_pod_id": pod, "server_list": servers} for pod, servers in pods.items()]


def tf_config(cluster: Cluster, port: int, index: int) -> dict[str, Any]:
    """TF_CONFIG of one worker. Workers on one host have ports one after another."""
    workers = [f"{server.address}:{port + place}" for server in cluster.servers for place in range(server.slots)]
    if not 0 <= index < len(workers):
        raise UserError(f"--index: found {index}, allowed is 0 to {len(workers) - 1}: there are {len(workers)} workers")
    return {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=4, ensure_ascii=False) + "\n"


def _lines(cluster: Cluster, name: Callable[[Server], str]) -> str:
    return "".join(hostfile([name(server)], server.slots) for server in cluster.servers)


# Every format by its name; what is not a rank table needs no devices.
FORMATS: dict[str, Callable[..., str]] = {
    "group_list": lambda cluster, **_: _json(group_list(cluster)),
    "group_list_pod": lambda cluster, job, **_: _json(group_list_pod(cluster, job)),
    "server_list": lambda cluster, version, **_: _json(server_list(cluster, version)),
    "hostfile": lambda cluster, **_: _lines(cluster, lambda server: server.host),
    "ib_config": lambda cluster, **_: _lines(cluster, lambda server: server.ib_address or server.address),
    "tf_config": lambda cluster, port, index, **_: _json(tf_config(cluster, port, index)),
}
