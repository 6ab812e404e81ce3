"""An attempt as a training job: node plans with marks for what only a worker knows, and the request. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from trainmark.agent.modelarts.worker import CODE_MARK, DATA, DATA_MARK, OUT, OUT_MARK, OWN_MARK, PLAN
from trainmark.agent.placeholders import agree_on
from trainmark.frameworks.protocol import REGISTRY, Command, Topology
from trainmark.launch import node_plan
from trainmark.launch.modelarts import options as modelarts_options
from trainmark.launch.modelarts.code import BOOT, TREES
from trainmark.launch.modelarts.options import POOL_FLAVORS, ModelArtsOptions
from trainmark.launch.protocol import AttemptSpec, NodeStart, Request
from trainmark.launch.trees import Tree
from trainmark.plan.records import CasePlan, NodePlan, Plan
from trainmark.reasons import reason
from trainmark.spec.site import Site

# What the launcher needs to know again, in each node plan.
ABOUT = "modelarts"
# Below the folder of a job in the store.
PLANS, LOGS = "plan/", "logs/"
# Ports are agreed on without a word: workers have networks of their own, and below the ephemeral ones few are taken.
_FIRST_PORT, _PORTS = 20000, 10000
_MOST_TEXT = 256


def render(spec: AttemptSpec, site: Site, tree: Tree | None, code: str) -> Request:
    options = modelarts_options.of(site)
    name = f"trainmark-{spec.token[:24]}"
    about = {
        "site": site.name,
        "run_dir": str(spec.run_dir),
        "options": site.launcher_options,
        "job": name,
        "code": code,
        "body": body(spec.case, options, name, code, f"{spec.run} round {spec.round} attempt {spec.attempt}"),
    }
    nodes = []
    case = alone(spec.case, site) if options.single_server else spec.case
    for node in case.nodes:
        job = node_plan.render(msgspec.structs.replace(spec, case=case), node, site, lost_seconds=options.lost_seconds)
        plan = _for_worker(job.plan, node.index, tree)
        ports = [port or _port(spec.token, node.index, number, options) for number, port in enumerate(plan["ports"])]
        plan = dict(plan, ports=ports) if options.single_server else agree_on(plan, ports)
        if options.single_server:
            plan["warnings"] = [msgspec.to_builtins(reason("single-server", nodes=len(case.nodes)))]
        nodes.append(NodeStart(job.host, job.dir, {**plan, ABOUT: about}))
    return Request(spec.attempt_dir, spec.token, tuple(nodes))


def for_store(plan: dict[str, Any]) -> dict[str, Any]:
    """The node plan as its worker gets it."""
    return {name: value for name, value in plan.items() if name != ABOUT}


def folder_of(options: ModelArtsOptions, name: str) -> tuple[str, str]:
    """Bucket and prefix of everything that belongs to a job."""
    bucket, prefix = modelarts_options.split(options.output)
    return bucket, f"{prefix}{name}/"


def _for_worker(plan: dict[str, Any], index: int, tree: Tree | None) -> dict[str, Any]:
    plan = node_plan.spelled(plan, "\0", "\0", tree, f"{CODE_MARK}/{TREES}")
    folder = f"{OUT_MARK}/node{index}"
    config = {**plan["config"], "workdir": folder, "checkpoints": f"{OWN_MARK}/checkpoints"}
    if str(config["data"] or "").startswith("obs://"):
        config["data"] = DATA_MARK
    # Nobody but this controller starts anything in a worker: there is no lease to look at.
    return {**plan, "dir": folder, "lease": None, "config": config, "spool": OWN_MARK}


def _port(token: str, node: int, number: int, options: ModelArtsOptions) -> int:
    own = node if options.single_server else 0
    return _FIRST_PORT + (int(token[:8], 16) + 7 * number + 131 * own) % _PORTS


def alone(case: CasePlan, site: Site) -> CasePlan:
    """Each node as a world of its own. Ranks keep their numbers in the attempt; they are told those of one node."""
    framework = REGISTRY.get(case.id.framework, f"case `{case.case}`")
    nodes = []
    for node in case.nodes:
        if case.foreign_ranks or not node.ranks:
            nodes.append(node)
            continue
        topology = Topology(("127.0.0.1",), len(node.ranks), case.backend, None, None, (), site.rank_table_file)
        start = framework.start(topology, node.ranks[0].argv)
        ranks = tuple(
            Command(planned.rank, own.local_rank, own.argv, own.env)
            for planned, own in zip(node.ranks, start.nodes[0], strict=True)
        )
        nodes.append(NodePlan(node.index, node.host, ranks, start.helpers))
    return msgspec.structs.replace(case, nodes=tuple(nodes))


def body(case: CasePlan, options: ModelArtsOptions, name: str, code: str, about: str) -> dict[str, Any]:
    """The request for the job, as the service's own records have it."""
    bucket, prefix = folder_of(options, name)
    code_bucket, code_prefix = modelarts_options.split(options.code)
    code_dir = f"/{code_bucket}/{code_prefix}{code}/"
    text = " ".join(part for part in (options.description, case.case, about) if part)
    algorithm: dict[str, Any] = {
        "code_dir": code_dir,
        "parameters": [{"name": key, "value": value} for key, value in parameters(case, options).items()],
        "inputs": [_channel(PLAN, f"/{bucket}/{prefix}{PLANS}")],
        "outputs": [_channel(OUT, f"/{bucket}/{prefix}")],
    }
    if str(case.data or "").startswith("obs://"):
        algorithm["inputs"].append(_channel(DATA, "/" + str(case.data).removeprefix("obs://")))
    if options.environment:
        algorithm["environments"] = options.environment
    if options.engine is not None:
        algorithm["engine"] = {"engine_name": options.engine.name, "engine_version": options.engine.version}
        algorithm["boot_file"] = f"{code_dir}{BOOT}"
    else:
        algorithm["engine"] = {"image_url": options.image}
        # The service hands this to a shell; only our own names are in it.
        algorithm["command"] = f'"${{MA_SCRIPT_INTERPRETER:-python3}}" -u "$MA_JOB_DIR/{code}/{BOOT}"'
    resource: dict[str, Any] = {"flavor_id": options.flavor, "node_count": len(case.nodes)}
    if options.pool:
        resource = {
            **resource,
            "pool_id": options.pool,
            "flavor_id": f"modelarts.pool.visual.{POOL_FLAVORS[options.cards]}",
        }
    spec: dict[str, Any] = {"resource": resource, "log_export_path": {"obs_url": f"/{bucket}/{prefix}{LOGS}"}}
    if options.most_hours is not None:
        spec["auto_stop"] = {"time_unit": "HOURS", "duration": options.most_hours}
    metadata = {"name": name, "workspace_id": options.workspace, "description": _described(text)}
    return {"kind": "job", "metadata": metadata, "algorithm": algorithm, "spec": spec}


def parameters(case: CasePlan, options: ModelArtsOptions) -> dict[str, str]:
    """Those of the case, so that the service shows what was run; those of the site come after them."""
    own = {key: json.dumps(value) if isinstance(value, bool) else str(value) for key, value in case.params.items()}
    return {**own, **options.parameters}


def _channel(name: str, url: str) -> dict[str, Any]:
    return {"name": name, "access_method": "env", "remote": {"obs": {"obs_url": url}}}


def _described(text: str) -> str:
    return re.sub(r"[^\w .:@=,/+-]", " ", text)[:_MOST_TEXT]


def preview(plan: Plan, codes: dict[str, str]) -> list[str]:
    """For the dry run: the job of each case. `codes`: the name of its code folder."""
    options = modelarts_options.of(plan.site)
    lines = ["ModelArts: one training job for each round"]
    for case in plan.cases:
        lines.append(f"  {case.case}")
        shown = json.dumps(body(case, options, "trainmark-TOKEN", codes[case.case], "RUN"), indent=2)
        lines += ["    " + line for line in shown.splitlines()]
    return lines
