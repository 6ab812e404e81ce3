"""The workers of a job that is a command: what the Apulis platform told its jobs, as a plan of the library. Pure.

Each node runs `agent worker`, which makes the job's home, lets workers enter each other by ssh, and runs the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent.node_plan import HANDED
from trainmark.agent.workers.home import RANK_TABLES, SECRETS
from trainmark.agent.workers.worker import COMMAND, SETTINGS
from trainmark.errors import UserError
from trainmark.frameworks import cluster as clusters
from trainmark.frameworks import ranktable
from trainmark.frameworks.protocol import HOST
from trainmark.plan.records import CasePlan, NodePlan, Plan
from trainmark.spec.site import Site
from trainmark.web.service.records import JobSpec

# On a host that does not see the server's folder: in the folder of the node, which is brought back.
HOME_THERE = "%DIR%/home"


class Places(msgspec.Struct, frozen=True):
    """Where a job's things are. `home`: where all nodes see it; None: each has its own, and is handed the secrets.
    `secrets`: the folder of the server that has them. `mounts`: folders by the names that the job has for them."""

    home: Path | None
    secrets: Path
    mounts: Mapping[str, str] = {}


def of_job(plan: Plan, spec: JobSpec, owner: str, job: str, places: Places) -> Plan:
    """The plan of a command with its workers."""
    # Any command will do: one that trains is measured, one that does not has no steps to be missed.
    cases = tuple(_case(case, spec, plan.site, owner, job, places) for case in plan.cases)
    return msgspec.structs.replace(plan, cases=cases)


def _case(case: CasePlan, spec: JobSpec, site: Site, owner: str, job: str, places: Places) -> CasePlan:
    first = len(case.ports)
    ports = [f"%PORT{first}%", f"%PORT{first + 1}%"] if spec.distributed else []
    hosts = [node.host or HOST.format(node.index) for node in case.nodes]
    tables = _rank_tables(spec, site, hosts)
    common = _common(spec, owner, job, str(places.home or HOME_THERE), tables)
    if spec.secrets:
        common[SECRETS] = str(places.secrets) if places.home else f"%DIR%/{HANDED}"
    if spec.distributed:
        common |= _peers(hosts, site, ports[0])
    settings = {
        "job": job,
        "user": owner,
        "slots": spec.devices,
        "run_on": spec.run_on,
        "keep_open": spec.stays,
        "mounts": dict(places.mounts),
        "contained": site.container is not None,
        "endpoints": list(spec.endpoints),
        "ports": list(spec.ports),
        "python": site.python if site.container is None else None,
    }
    files = {COMMAND: spec.command or "", SETTINGS: msgspec.json.encode(settings).decode(), **tables}
    return msgspec.structs.replace(
        case,
        probe=False,
        cwd=None,
        short_spool=True,
        ports=(*case.ports, *(_port(site, first + number) for number in range(len(ports)))),
        files={**case.files, **files},
        handed={} if places.home else {name: str(places.secrets / name) for name in spec.secrets},
        nodes=tuple(_node(node, [*ports, *hosts] if spec.distributed else [], common) for node in case.nodes),
    )


def _node(node: NodePlan, words: list[str], common: dict[str, str]) -> NodePlan:
    own = {"DLWS_ROLE_IDX": str(node.index), "DLTS_ROLE_IDX": str(node.index)}
    for name in ("IP", "SSH_PORT", "IB_IP"):
        told = common.get(f"DLWS_SD_worker{node.index}_{name}")
        own |= {f"DLWS_SD_SELF_{name}": told} if told else {}
    (rank,) = node.ranks
    argv = ("%AGENT%", "worker", str(node.index), *words)
    changed = msgspec.structs.replace(rank, argv=argv, env={**rank.env, **common, **own})
    return msgspec.structs.replace(node, ranks=(changed,))


def _common(spec: JobSpec, owner: str, job: str, home: str, tables: dict[str, str]) -> dict[str, str]:
    found = {
        "HOME": home,
        "DLWS_JOB_ID": job,
        "DLWS_USER_NAME": owner,
        "DLWS_NUM_PS": "0",
        "DLWS_NUM_WORKER": str(spec.nodes),
        "DLWS_WORKER_NUM": str(spec.nodes),
        "DLWS_NUM_GPU_PER_WORKER": str(spec.devices),
        "DLWS_GPU_TYPE": spec.device,
        "DLWS_IS_NPU_JOB": "true" if spec.device == "ascend" else "false",
        "DLWS_ROLE_NAME": "worker",
        "DLWS_HOST_NETWORK": "enable",
    }
    names = ("MINDSPORE_HCCL_CONFIG_PATH", "RANK_TABLE_FILE")
    return found | {name: f"{home}/{file}" for name, file in zip(names, RANK_TABLES, strict=True) if file in tables}


def _peers(hosts: list[str], site: Site, port: str) -> dict[str, str]:
    found = {}
    for number, host in enumerate(hosts):
        found[f"DLWS_SD_worker{number}_IP"] = f"%ADDRESS:{host}%"
        found[f"DLWS_SD_worker{number}_SSH_PORT"] = port
        fast = site.fabric[host].ib_address if host in site.fabric else None
        if fast:
            found[f"DLWS_SD_worker{number}_IB_IP"] = fast
    return found


def _port(site: Site, number: int) -> int:
    """Neighbours of a port that the site fixed, else any that are free."""
    return site.master_port + number if site.master_port else 0


def _rank_tables(spec: JobSpec, site: Site, hosts: list[str]) -> dict[str, str]:
    """Where the site knows the addresses of the devices: in the form of old and of today's MindSpore."""
    if any(host not in site.fabric for host in hosts):
        return {}
    try:
        cluster = clusters.of_site(msgspec.structs.replace(site, hosts=hosts), spec.devices, {})
        forms: tuple[Any, ...] = (
            ranktable.FORMATS["group_list"](cluster, version="1.0"),
            ranktable.FORMATS["server_list"](cluster, version="1.0"),
        )
    except UserError as error:
        raise UserError(f"devices: no rank table can be made: {error}") from None
    return dict(zip(RANK_TABLES, forms, strict=True))


def shown(plan: Plan, spec: JobSpec) -> dict[str, Any]:
    """Of the dry run: what workers find besides their environment."""
    case = plan.cases[0]
    hosts = [node.host or HOST.format(node.index) for node in case.nodes]
    fast = [plan.site.fabric[host].ib_address or host if host in plan.site.fabric else host for host in hosts]
    return {
        "argv": ["bash", f"%DIR%/{COMMAND}"],
        "command": spec.command,
        "host_file": ranktable.hostfile(hosts, spec.devices) if spec.distributed else None,
        "ib_config": ranktable.hostfile(fast, spec.devices) if spec.distributed else None,
        "rank_tables": {name: case.files[name] for name in RANK_TABLES if name in case.files},
    }
