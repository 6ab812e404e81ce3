"""The site file of a lab: what a user would write for hosts like these."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trainmark
from lab.layout import Layout

ENGINES = ("docker", "podman")


def content(plan: Layout, **more: Any) -> dict[str, Any]:
    """As YAML would be read. Hosts share two cores: whoever waits must not spin."""
    return {
        "schema": 1,
        "name": plan.options.name,
        "launcher": "ssh",
        "hosts": plan.nodes,
        "ssh": {"config": str(plan.ssh_config), "connect_seconds": 10, "lost_seconds": 10},
        "python": sys.executable,
        "interface": "eth0",
        "env": {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "OMPI_MCA_mpi_yield_when_idle": "1"},
        "tuning": {"affinity": "none"},
        **more,
    }


def slurm_content(plan: Layout, slurm: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The same hosts by way of their Slurm, used from the machine itself."""
    from lab.slurm import client_conf

    asked = {"conf": str(client_conf(plan)), "partition": "main", "lost_seconds": 12, **(slurm or {})}
    plain = content(plan, launcher="slurm", slurm=asked, shared_dir=str(plan.shared), **more)
    return {name: value for name, value in plain.items() if name != "ssh"}


def container(engine: str) -> dict[str, Any]:
    """A container with the machine's own programs mounted into the lab's empty image."""
    from lab.engines import IMAGE, MOUNTS

    wanted = {Path(place).resolve() for place in (*MOUNTS, *sys.path, sys.base_prefix, trainmark.__path__[0]) if place}
    wanted = {place for place in wanted if place.is_dir()} | {Path(sys.prefix)}
    tops = sorted(place for place in wanted if not wanted.intersection(place.parents))
    return {"engine": engine, "image": IMAGE, "mounts": [f"{place}:{place}:ro" for place in tops]}


def write(plan: Layout) -> None:
    import json

    # JSON is YAML, too.
    sites = {"site": content(plan)}
    if plan.options.slurm:
        sites["slurm"] = slurm_content(plan)
    for engine in ENGINES if plan.options.docker else ():
        sites[engine] = content(plan, container=container(engine))
    for name, made in sites.items():
        (plan.base / f"{name}.yaml").write_text(json.dumps(made, indent=1) + "\n")
