"""The node plan: what the control side tells one agent about one attempt. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trainmark.launch import AttemptSpec, NodeJob
from trainmark.plan.records import NodePlan
from trainmark.spec.site import Site
from trainmark.store.rundir import LEASE, node_dir

SCHEMA = 1


def render(spec: AttemptSpec, node: NodePlan, site: Site) -> NodeJob:
    """The agent's orders for `node`, in the words of the versioned node plan."""
    case, folder = spec.case, node_dir(spec.attempt_dir, node.host, node.index)
    return NodeJob(
        node.host,
        folder,
        {
            "schema": SCHEMA,
            "run": spec.run,
            "token": spec.token,
            "epoch": spec.epoch,
            "lease": str(spec.run_dir / LEASE),
            "case": case.case,
            "round": spec.round,
            "attempt": spec.attempt,
            "node": node.index,
            "nnodes": len(case.nodes),
            "host": node.host,
            "dir": str(folder),
            "spool": None,
            "ports": list(case.ports),
            "config": _config(spec, node, folder),
            "env": case.env,
            "unset": site.unset,
            "cwd": None,
            "path": list(case.path),
            "ranks": [msgspec.to_builtins(command) for command in node.ranks],
            "deadlines": msgspec.to_builtins(case.deadlines),
            "probe": case.probe,
            "sample_seconds": 1.0,
            "tuning": msgspec.to_builtins(site.tuning),
            "containment": site.containment,
            "device": {"vendor": case.vendor, "visible": case.visible},
        },
    )


def _config(spec: AttemptSpec, node: NodePlan, folder: Path) -> dict[str, Any]:
    """What the training program itself is told."""
    case = spec.case
    return {
        "case": case.case,
        "workload": case.workload,
        "framework": case.framework,
        "device": case.vendor,
        "backend": case.backend,
        "preset": case.preset,
        "params": case.params,
        "data": case.data,
        "checkpoint": case.checkpoint,
        "workdir": str(folder),
        # Beside the attempts: a second attempt goes on where the first one was cut off. Each node has its own.
        "checkpoints": str(spec.attempt_dir.parent / "checkpoints" / f"node{node.index}"),
        "seed": spec.seed,
        "nnodes": len(case.nodes),
        "nproc": len(case.nodes[0].ranks),
    }
