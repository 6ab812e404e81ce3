"""Making a plan: node and rank layout for each case, and the random order of rounds."""

from __future__ import annotations

import msgspec

from trainmark.devices import catalog
from trainmark.errors import UserError
from trainmark.frameworks import REGISTRY, Topology
from trainmark.plan.records import SCHEMA, CasePlan, NodePlan, Plan, RoundRef
from trainmark.spec.case import Case
from trainmark.spec.case_id import AUTO, LONGEST
from trainmark.spec.site import Site

MOST_RANKS = 100_000
MOST_ROUNDS = 100_000


class Places(msgspec.Struct, frozen=True):
    """Where things lie on the nodes: the ranks' Python, the folder of the probe, data sets by name."""

    python: str
    probe: str
    data: dict[str, str] = {}


def build(suite: str, division: str, retries: int, cases: list[Case], site: Site, places: Places, seed: int) -> Plan:
    """The whole plan. The same arguments give the same plan."""
    _check_size(cases)
    planned = tuple(_case(case, site, places) for case in cases)
    return Plan(SCHEMA, suite, division, site, seed, retries, planned, _blocks(planned, seed))


def _check_size(cases: list[Case]) -> None:
    """Numbers that nobody can have meant are refused before they fill the memory."""
    for case in cases:
        ranks = case.id.nnodes * case.id.nproc
        if ranks > MOST_RANKS:
            raise UserError(f"case `{case.id}` has {ranks} ranks, allowed are {MOST_RANKS}")
        # The variant grew while the layers were settled.
        if len(case.id.dir_name().encode()) > LONGEST:
            raise UserError(f"case `{case.id}` is too long for a folder name ({LONGEST} bytes)")
    rounds = sum(int(case.id.repeat) for case in cases if case.id.repeat != AUTO)
    if rounds > MOST_ROUNDS:
        raise UserError(f"the cases make {rounds} rounds, allowed are {MOST_ROUNDS}")


def _blocks(cases: tuple[CasePlan, ...], seed: int) -> tuple[tuple[RoundRef, ...], ...]:
    """Randomised complete blocks: block b holds each case that has a b-th round once, in random order."""
    import random  # costs more than all else here

    shuffle = random.Random(seed)  # noqa: S311 - an order, not a secret
    blocks = []
    for number in range(1, max(case.repeat for case in cases) + 1):
        block = [RoundRef(index, number) for index, case in enumerate(cases) if case.repeat >= number]
        shuffle.shuffle(block)
        blocks.append(tuple(block))
    return tuple(blocks)


def _network(site: Site) -> dict[str, str]:
    """Which interface the ranks of several hosts meet on, in the words of the libraries that ask."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    return dict.fromkeys(names, site.interface) if site.interface else {}


def _case(case: Case, site: Site, places: Places) -> CasePlan:
    case_id, workload, folder = case.id, case.found.workload, case.found.folder
    if case_id.repeat == AUTO:
        raise UserError(f"case `{case_id}`: repeat `auto` cannot be planned yet; give a number")
    if case_id.nnodes > len(site.hosts):
        raise UserError(f"case `{case_id}` needs {case_id.nnodes} nodes; site `{site.name}` has {len(site.hosts)}")
    device = catalog.get(case.vendor, case_id.device, site.name)
    backend = device.backend.get(case_id.framework, "")
    hosts = tuple(site.hosts[: case_id.nnodes])
    argv = (places.python, "-u", str(folder.resolve() / workload.entry[case_id.framework]))
    framework = REGISTRY.get(case_id.framework, f"case `{case_id}`")
    start = framework.start(Topology(hosts, case_id.nproc, backend), argv)
    return CasePlan(
        case=str(case_id),
        fingerprint=case.fingerprint,
        workload=workload.name,
        unit=workload.unit,
        framework=case_id.framework_text,
        device=case_id.device,
        vendor=case.vendor,
        visible=device.visible,
        backend=backend,
        preset=case.preset,
        division=case.division,
        opened=case.opened,
        params=case.values,
        origins={name: setting.origin for name, setting in case.params.items()},
        data={**places.data, **site.data}.get(case.data, case.data) if case.data else None,
        data_name=case.data if case.data in places.data else None,
        data_required=bool(workload.data and workload.data.required),
        checkpoint=case.checkpoint,
        flops_per_sample=workload.flops_per_sample,
        target=workload.target,
        probe=workload.probe,
        deadlines=case.deadlines,
        ports=(site.master_port,) * start.ports,
        env={**_network(site), **site.env},
        path=(places.probe, *(str((folder / extra).resolve()) for extra in workload.path)),
        repeat=int(case_id.repeat),
        nodes=tuple(
            NodePlan(index, host, ranks) for index, (host, ranks) in enumerate(zip(hosts, start.nodes, strict=True))
        ),
        folder=str(folder.resolve()),
    )
