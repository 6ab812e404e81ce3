"""From an experiment and a site to a plan: one case per slot for a worker, all at the same time. Pure.

A worker is one long round of the workload `automl_trial`. There may be more slots than workers: then one whose host
fails is left for another.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.automl.experiment.config import Experiment
from trainmark.automl.graph.graph import Graph
from trainmark.automl.graph.graph_json import encode
from trainmark.errors import UserError
from trainmark.launch.protocol import launcher_of
from trainmark.plan.build import Places, build
from trainmark.plan.records import SCHEMA, CasePlan, Plan, RoundRef
from trainmark.spec import suite_cases
from trainmark.spec.site import Site, Tuning
from trainmark.spec.suite import Loaded, Suite
from trainmark.spec.yamlfile import Location

WORKLOAD = "automl_trial"
# A worker's own deadline, beyond the experiment's: it has to start, to finish a step, and to write its result.
GRACE_SECONDS = 600.0
# A crash starts a worker again; a machine that was lost may come back much later.
RESTARTS, RETRIES = 10, 1000


class WorkerSlot(msgspec.Struct, frozen=True):
    """Where a worker runs: its hosts, and which of the workers on them it is."""

    hosts: tuple[str, ...]
    share: int


def slots_of(experiment: Experiment, site: Site) -> list[WorkerSlot]:
    """All of them; different hosts first."""
    nodes, hosts = experiment.slot.nodes, site.hosts
    groups = [tuple(hosts[at : at + nodes]) for at in range(0, len(hosts) - nodes + 1, nodes)]
    if not groups:
        raise UserError(f"slot.nodes: found {nodes}; site `{site.name}` has {len(hosts)} nodes")
    return [WorkerSlot(group, share) for share in range(per_node(experiment, site)) for group in groups]


def per_node(experiment: Experiment, site: Site) -> int:
    if experiment.slot.per_node is not None:
        return experiment.slot.per_node
    return experiment.workers if launcher_of(site).this_machine else 1


def site_of(experiment: Experiment, site: Site) -> Site:
    """The site as workers use it: a core of each node is left to the agent, and each worker is a job of its own."""
    replace = msgspec.structs.replace
    several = per_node(experiment, site) > 1
    tuning: Tuning = replace(
        site.tuning, spare_cores=max(1, site.tuning.spare_cores), share=max(1, per_node(experiment, site))
    )
    if several:
        # Each agent would give its ranks the same first cores.
        tuning = replace(tuning, affinity="none")
    if experiment.threads is not None:
        tuning = replace(tuning, threads=experiment.threads)
    return launcher_of(site).site_for_workers(replace(site, tuning=tuning), several=several)


def make(experiment: Experiment, site: Site, places: Places) -> Plan:
    """The plan, without what depends on the run's folder (`at_home`)."""
    slots = slots_of(experiment, site)
    site = site_of(experiment, site)
    shape = experiment.slot
    total = experiment.seconds + experiment.overtime + GRACE_SECONDS
    entries = [
        {
            "case": f"{WORKLOAD}:pytorch:{experiment.device}:{shape.nodes}:{shape.devices}:1@slot={index}",
            "data": experiment.data,
            "deadlines": {"total": total},
        }
        for index in range(len(slots))
    ]
    suite = Suite(schema=1, name=experiment.name, cases=entries, preset="full")
    cases = suite_cases.expand(Loaded(suite, Location(experiment.name)), site, {})
    planned = []
    for case, slot in zip(cases, slots, strict=True):
        here = msgspec.structs.replace(site, hosts=list(slot.hosts))
        (found,) = build(experiment.name, "closed", 0, [case], here, places, experiment.seed).cases
        planned.append(_worker(experiment, found, slot))
    order = tuple(RoundRef(index, 1) for index in range(len(planned)))
    return Plan(
        schema=SCHEMA,
        suite=experiment.name,
        division="closed",
        site=site,
        seed=experiment.seed,
        retries=RETRIES,
        cases=tuple(planned),
        blocks=(order,),
        width=min(experiment.workers, len(planned)),
        sharing=True,
        kind="automl",
    )


def _worker(experiment: Experiment, case: CasePlan, slot: WorkerSlot) -> CasePlan:
    visible, replace = _visible(experiment, case, slot), msgspec.structs.replace
    # A worker has all of its devices, whatever else a node's ranks would be given one each of.
    nodes = tuple(
        replace(node, ranks=tuple(replace(rank, env={**rank.env, **visible}) for rank in node.ranks))
        for node in case.nodes
    )
    return replace(case, nodes=nodes, restarts=RESTARTS)


def _visible(experiment: Experiment, case: CasePlan, slot: WorkerSlot) -> dict[str, str]:
    """Which of a node's devices the worker sees; each of those on one node has its own."""
    if case.visible is None:
        return {}
    count = experiment.slot.devices
    if experiment.visible_devices is None:
        names = [str(number) for number in range(slot.share * count, (slot.share + 1) * count)]
    else:
        names = experiment.visible_devices.split(",")[slot.share * count : (slot.share + 1) * count]
    if len(names) < count:
        raise UserError(
            f"visible_devices: found `{experiment.visible_devices}`; {slot.share + 1} workers on a node with {count} "
            f"devices each need {(slot.share + 1) * count}"
        )
    return {case.visible: ",".join(names)}


def at_home(plan: Plan, experiment: Experiment, start: Sequence[Graph], run: str, home: str, ledger: str) -> Plan:
    """The plan with what workers need: the experiment, its folder and its ledger. Start models go along, since their
    files are on this machine."""
    given = {
        "experiment": msgspec.json.encode(experiment).decode(),
        "start": msgspec.json.encode([encode(graph).decode() for graph in start]).decode(),
        "run": run,
        "home": home,
        "ledger": ledger,
        # Only a journal lies in a folder that all workers and the controller see.
        "carry": not ledger.startswith("journal:"),
    }
    replace = msgspec.structs.replace
    return replace(plan, cases=tuple(replace(case, params={**case.params, **given}) for case in plan.cases))


def experiment_of(plan: Plan) -> Experiment:
    """The experiment of a run, from its manifest."""
    if plan.kind != "automl":
        raise UserError("this run is no AutoML experiment; `trainmark automl run` starts one")
    return msgspec.json.decode(str(plan.cases[0].params["experiment"]), type=Experiment)
