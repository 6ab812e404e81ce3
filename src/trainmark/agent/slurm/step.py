"""The agent of one node in a Slurm step: finds out which node of the plan it is, and what only the start can tell."""

from __future__ import annotations

import os
import sys
import time

from trainmark.agent import linux
from trainmark.agent.placeholders import agree_on, fill_hosts
from trainmark.agent.record import read_json, replace_json
from trainmark.agent.stale_spools import TEMPORARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NODE_PLAN, PORTS = "node.json", "ports.json"
_NOT_SHARED = 77
_LOOK_SECONDS = 0.1


class NotShared(Exception):
    """This node does not see the folder of the run."""


def task(order_file: str, nodes: str) -> int:
    """Runs the agent of this node; `nodes` are the step's hosts in the order of the plan."""
    from trainmark.agent.main import run

    try:
        order, index = _place(order_file, nodes)
        plan = _plan(order, index, nodes.split(","))
        path = os.path.join(plan["dir"], NODE_PLAN)
        replace_json(path, plan)
        _own_log(plan["dir"])
    except NotShared as error:
        sys.stderr.write("trainmark: %s: %s\n" % (os.uname().nodename, error))
        return _NOT_SHARED
    return run(path)


def tidy(order_file: str, nodes: str) -> int:
    """After a step that did not end by itself: nothing of it is left on this node, and all it wrote is kept."""
    from trainmark.agent.contain.sweep import sweep
    from trainmark.agent.ship import complete

    order, index = _place(order_file, nodes)
    sweep(order["token"])
    complete(order["dirs"][index])
    return 0


def _place(order_file: str, nodes: str) -> tuple[dict[str, Any], int]:
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
    # Where the probes write must be the node's own disk; so must be what tells neighbours of each other.
    own = os.environ.get("TMPDIR") or TEMPORARY
    plan["spool"] = own
    plan["active"] = os.path.join(own, "trainmark-active-%d" % os.getuid())
    plan["cpus"] = int(os.environ.get("SLURM_CPUS_PER_TASK") or 0) or None
    if plan["ports"] and len(hosts) > 1:
        plan = agree_on(plan, _agree(plan, os.path.join(os.path.dirname(folder), PORTS)))
    return plan


def _agree(plan: dict[str, Any], path: str) -> list[int]:
    """Found free on the first node, where the ranks will meet, and told to the others through the shared folder."""
    if plan["node"] == 0:
        from trainmark.agent.ports import Ports

        held = Ports(linux.Proc())
        held.hold(plan["ports"])
        numbers = list(held.numbers)
        held.release()
        replace_json(path, {"token": plan["token"], "ports": numbers})
        return numbers
    deadline = time.monotonic() + float(plan["deadlines"]["start"])
    while time.monotonic() < deadline:
        os.listdir(os.path.dirname(path))  # a file server may hide new files from those who do not look
        found = read_json(path)
        if isinstance(found, dict) and found.get("token") == plan["token"]:
            return [int(port) for port in found["ports"]]
        time.sleep(_LOOK_SECONDS)
    raise NotShared("the first node did not tell its ports through %s" % path)


def _own_log(folder: str) -> None:
    log = os.open(os.path.join(folder, "agent.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
