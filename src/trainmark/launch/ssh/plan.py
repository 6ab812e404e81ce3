"""Node plans for hosts that share nothing with the controller, and how such a host is reached. Pure."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from trainmark.launch import agent_command, node_plan
from trainmark.launch.protocol import AttemptSpec, NodeStart
from trainmark.launch.ssh import images
from trainmark.launch.ssh import options as ssh_options
from trainmark.launch.ssh.command_line import SshTarget
from trainmark.launch.trees import Tree
from trainmark.plan.records import NodePlan
from trainmark.spec.site import Site

# Stands for the host's work folder, which only the host itself can spell out.
WORK = "%TRAINMARK_WORK%"
REACH = "reach"


def reach(site: Site, host: str) -> SshTarget:
    ssh = ssh_options.of(site)
    return SshTarget(
        host=host,
        user=ssh.user,
        port=ssh.port,
        config=ssh.config,
        work_dir=site.work_dir,
        node_python=site.node_python,
        connect_seconds=ssh.connect_seconds,
        lost_seconds=ssh.lost_seconds,
        become=ssh.become,
    )


def run_key(run: str, run_dir: Path) -> str:
    """A name on the hosts that no other controller's run has, even one with the same id."""
    own = f"{os.uname().nodename}\0{run_dir}".encode()
    return f"{run}-{hashlib.sha256(own).hexdigest()[:8]}"


def render(spec: AttemptSpec, node: NodePlan, site: Site, tree: Tree | None, node_zip: str) -> NodeStart:
    """The node plan with every path as the host will see it, and how the host is reached."""
    job = node_plan.render(spec, node, site, lost_seconds=ssh_options.of(site).lost_seconds)
    run_dir = f"{WORK}/runs/{run_key(spec.run, spec.run_dir)}"
    plan = node_plan.spelled(job.plan, str(spec.run_dir), run_dir, tree, f"{WORK}/trees")
    plan["active"] = f"{WORK}/active"
    prepared = images.prepared_dir(site, WORK)
    if prepared:
        plan["path"] = [*plan["path"], prepared]
    plan[REACH] = {
        "site": site.name,
        "clear_caches": site.clear_caches,
        "ssh": msgspec.to_builtins(reach(site, node.host)),
        "tree": tree.name if tree else None,
        "node_zip": node_zip,
        **_program(site, plan, node_zip),
    }
    return NodeStart(job.host, job.dir, plan)


def _program(site: Site, plan: dict[str, Any], node_zip: str) -> dict[str, Any]:
    """What the relay starts: the agent, inside a container where the site asks for one."""
    python = site.container.python if site.container else site.node_python
    agent = [python, "-I", "-S", f"{WORK}/node/{node_zip}", "run", f"{plan['dir']}/node.json"]
    if site.container:
        image = images.image_name(site.container)
        made = agent_command.in_container(site.container, plan, agent, WORK, image, site.shared_dir)
        return {"argv": made.argv, "container": {"engine": made.engine, "name": made.name, "image": made.image}}
    return {"argv": agent_command.with_modules(site.modules, agent), "container": None}
