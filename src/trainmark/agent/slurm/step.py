"""The agent of one node in a Slurm step: finds out which node of the plan it is, and fills in hosts and ports."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from trainmark.agent import linux, private
from trainmark.agent.attempt import run
from trainmark.agent.contain.sweep import sweep
from trainmark.agent.events.shipper import complete
from trainmark.agent.events.spools import TEMPORARY
from trainmark.agent.files import read_json, replace_json
from trainmark.agent.node_plan import NODE_PLAN
from trainmark.agent.placeholders import agree_on, fill_hosts
from trainmark.agent.ports import Ports

PORTS = "ports.json"
_NOT_SHARED = 77
_LOOK_SECONDS = 0.1


class NotShared(Exception):
    """This node does not see the folder of the run."""


def run_step(order_file: str, nodes: str) -> int:
    """Runs the agent of this node; `nodes` are the step's hosts in the order of the plan."""
    try:
        order, index = _read_order(order_file, nodes)
        plan = _plan(order, index, nodes.split(","))
        path = os.path.join(plan["dir"], NODE_PLAN)
        replace_json(path, plan, mode=private.FILE)
        _redirect_output(plan["dir"])
    except NotShared as error:
        sys.stderr.write("trainmark: %s: %s\n" % (os.uname().nodename, error))
        return _NOT_SHARED
    return run(path)


def clean_up(order_file: str, nodes: str) -> int:
    """After a step that was killed: kills what is left on this node and ships its events."""
    order, index = _read_order(order_file, nodes)
    sweep(order["token"])
    complete(order["dirs"][index])
    return 0


def _read_order(order_file: str, nodes: str) -> tuple[dict[str, Any], int]:
    order = read_json(order_file)
    if not isinstance(order, dict):
        raise NotShared("%s cannot be read here; is `shared_dir` seen by all nodes?" % order_file)
    return order, nodes.split(",").index(os.environ["SLURMD_NODENAME"])


def _plan(order: dict[str, Any], index: int, hosts: list[str]) -> dict[str, Any]:
    folder = order["dirs"][index]
    plan = read_json(os.path.join(folder, NODE_PLAN))
    if not isinstance(plan, dict):
        raise NotShared("%s cannot be read here; is `shared_dir` seen by all nodes?" % folder)
    plan = fill_hosts(plan, hosts)
    # The spool must be on the node's own disk; so must be the files by which attempts find each other.
    own = os.environ.get("TMPDIR") or TEMPORARY
    plan["spool"] = own
    plan["active"] = os.path.join(own, "trainmark-active-%d" % os.getuid())
    plan["cpus"] = int(os.environ.get("SLURM_CPUS_PER_TASK") or 0) or None
    if plan["ports"] and len(hosts) > 1:
        plan = agree_on(plan, _agree_on_ports(plan, os.path.join(os.path.dirname(folder), PORTS)))
    return plan


def _agree_on_ports(plan: dict[str, Any], path: str) -> list[int]:
    """Chosen on the first node, where the ranks connect to, and read by the others from the shared folder."""
    if plan["node"] == 0:
        held = Ports(linux.Proc())
        held.hold(plan["ports"])
        numbers = list(held.numbers)
        held.release()
        replace_json(path, {"token": plan["token"], "ports": numbers})
        return numbers
    deadline = time.monotonic() + float(plan["deadlines"]["start"])
    while time.monotonic() < deadline:
        os.listdir(os.path.dirname(path))  # makes the file server show new files
        found = read_json(path)
        if isinstance(found, dict) and found.get("token") == plan["token"]:
            return [int(port) for port in found["ports"]]
        time.sleep(_LOOK_SECONDS)
    raise NotShared("the first node did not tell its ports through %s" % path)


def _redirect_output(folder: str) -> None:
    log = os.open(os.path.join(folder, "agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
