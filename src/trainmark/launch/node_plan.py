"""The node plan: what the control side tells one agent about one attempt. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trainmark.devices.protocol import REGISTRY, Device
from trainmark.launch.protocol import AttemptSpec, NodeStart
from trainmark.launch.trees import Tree, moved
from trainmark.plan.records import CasePlan, NodePlan
from trainmark.spec.site import Site
from trainmark.store.rundir import LEASE, node_dir

SCHEMA = 1


def render(
    spec: AttemptSpec, node: NodePlan, site: Site, *, lost_seconds: float = 120.0, ranks_beside: bool = False
) -> NodeStart:
    """The agent's orders for `node`, as the versioned node plan holds them."""
    case, folder = spec.case, node_dir(spec.attempt_dir, node.host, node.index)
    return NodeStart(
        node.host,
        folder,
        {
            "schema": SCHEMA,
            "run": spec.run,
            "token": spec.token,
            "key": spec.key,
            "epoch": spec.epoch,
            "lease": str(spec.run_dir / LEASE),
            "case": case.case,
            "round": spec.round,
            "attempt": spec.attempt,
            "node": node.index,
            "nnodes": len(case.nodes),
            "host": node.host,
            "dir": str(folder),
            # What starts ranks on all nodes needs one name for it that is good on each of them.
            "spool": "/tmp" if case.launched or case.short_spool else None,  # noqa: S108
            "ports": list(case.ports),
            "config": _config(spec, node, folder),
            "env": {**case.env, **_diagnostic(case)},
            "unset": site.unset,
            "cwd": case.cwd,
            "path": list(case.path),
            "ranks": [msgspec.to_builtins(command) for command in node.ranks],
            "helpers": [msgspec.to_builtins(helper) for helper in node.helpers],
            "deadlines": {**msgspec.to_builtins(case.deadlines), "lost": lost_seconds},
            # Where steps are read from the output, it is that of the first node.
            "probe": case.probe and (case.pattern is None or node.index == 0),
            "open": case.foreign_ranks,
            # Ranks that are started beside the agents, not below them, are looked for when a round ends.
            "sweep": case.launched and ranks_beside,
            "files": case.files,
            "handed": case.handed,
            "pattern": _pattern(case) if node.index == 0 else None,
            "sample_seconds": 1.0,
            "tuning": _tuning(case, site),
            "containment": site.containment,
            "memory": case.memory,
            "board": _board(site, node.host),
            "device": {
                "vendor": case.vendor,
                "visible": None if case.foreign_ranks else case.visible,
                "setup": list(_device(case).setup),
            },
        },
    )


def _board(site: Site, host: str) -> dict[str, Any] | None:
    asked = site.ipmi or site.redfish
    return {"argv": asked.command(host), "every": asked.every} if asked else None


def spelled(plan: dict[str, Any], here: str, there: str, tree: Tree | None, trees: str) -> dict[str, Any]:
    """The plan with paths as the node sees them: the run's folder `here` is `there`, the workload's files are a tree
    below `trees`."""

    def moved_run(text: str) -> str:
        return there + text[len(here) :] if text == here or text.startswith(here + "/") else text

    def moved_tree(text: str) -> str:
        return moved(text, tree.places, f"{trees}/{tree.name}") if tree else text

    config = dict(plan["config"])
    for name in ("workdir", "checkpoints"):
        config[name] = moved_run(config[name])
    config["code"] = config["code"] and moved_tree(config["code"])
    ranks = [{**rank, "argv": [moved_tree(word) for word in rank["argv"]]} for rank in plan["ranks"]]
    path = [moved_tree(text) for text in plan["path"]]
    paths = {"dir": moved_run(plan["dir"]), "lease": moved_run(plan["lease"]), "path": path}
    return {**plan, **paths, "config": config, "ranks": ranks}


def _device(case: CasePlan) -> Device:
    """A vendor of an older plan that nobody knows any more needs nothing."""
    found: Device = REGISTRY.get(case.vendor) if REGISTRY.knows(case.vendor) else Device()
    return found


def _tuning(case: CasePlan, site: Site) -> dict[str, Any]:
    """A command of the user's own runs as its user would run it: only what the site asks for is set."""
    asked: dict[str, Any] = msgspec.to_builtins(site.tuning)
    if case.foreign_ranks:
        left_alone = {"threads": "none", "affinity": "none", "allocator": "default"}
        asked = {name: left_alone[name] if value == "auto" else value for name, value in asked.items()}
    return asked


def _diagnostic(case: CasePlan) -> dict[str, str]:
    """A variable, because it reaches every process of a command, and none of a timed round."""
    asked = case.diagnostic
    return {} if asked is None else {"TRAINMARK_DIAGNOSE": f"{asked.mode}:{asked.skip}:{asked.steps}"}


def _steps_said(case: CasePlan) -> dict[str, Any]:
    """What the user said about a command's steps."""
    return {"unit": case.unit, "batch": case.params.get("batch"), "steps": case.params.get("steps")}


def _pattern(case: CasePlan) -> dict[str, Any] | None:
    if case.pattern is None:
        return None
    devices = case.id.nnodes * case.id.nproc
    return {**case.pattern, **_steps_said(case), "devices": devices}


def _config(spec: AttemptSpec, node: NodePlan, folder: Path) -> dict[str, Any]:
    """What the training program itself reads."""
    case = spec.case
    return {
        "case": case.case,
        "workload": case.workload,
        "framework": case.framework,
        "device": case.vendor,
        "backend": case.backend,
        "torch_device": _device(case).torch_device or None,
        "torch_module": _device(case).torch_module,
        "preset": case.preset,
        "params": case.params,
        # How long to train, where that is not the steps of the parameters.
        "length": None if case.length is None else msgspec.to_builtins(case.length),
        "data": case.data,
        "checkpoint": case.checkpoint,
        "workdir": str(folder),
        # The program's own files; a command of the user's own runs among its files anyway.
        "code": None if case.open else case.folder or None,
        # Beside the attempts: a second attempt goes on where the first one was cut off. Each node has its own.
        "checkpoints": str(spec.attempt_dir.parent / "checkpoints" / f"node{node.index}"),
        "seed": spec.seed,
        "nnodes": len(case.nodes),
        "nproc": case.id.nproc if case.foreign_ranks else len(case.nodes[0].ranks),
        "exec": _steps_said(case) if case.open else None,
    }
