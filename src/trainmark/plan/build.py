"""Making a plan: node and rank layout for each case, and the random order of rounds."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.devices.protocol import device_of
from trainmark.errors import UserError
from trainmark.frameworks import cluster as clusters
from trainmark.frameworks import ranktable
from trainmark.frameworks.protocol import HOST, REGISTRY, Topology
from trainmark.plan.records import SCHEMA, CasePlan, NodePlan, Plan, RoundRef
from trainmark.reasons import reason
from trainmark.spec import band as bands
from trainmark.spec import shape
from trainmark.spec.case import SYNTHETIC, Case
from trainmark.spec.case_id import LONGEST
from trainmark.spec.site import AUTO_RANK_TABLE, Site

if TYPE_CHECKING:
    from trainmark.spec.peaks import Peaks

MOST_RANKS = 100_000
# Of all cases together: each rank has its own arguments and environment in the plan.
MOST_PLANNED_RANKS = 200_000
MOST_ROUNDS = 100_000
# The collective library that reads rank tables.
HCCL = "hccl"


class Places(msgspec.Struct, frozen=True):
    """Where things lie on the nodes: the ranks' Python, the folder of the probe, data sets by name."""

    python: str
    probe: str
    data: dict[str, str] = {}
    # Of frameworks that have a Python of their own.
    pythons: dict[str, str] = {}
    # What paths of data and checkpoints that are not absolute start from.
    here: str = ""
    # The site's launcher starts ranks that agents do not (MPI) by this program; what it adds to the command line.
    rank_starter: str | None = None
    rank_options: tuple[str, ...] = ()


def build(
    suite: str,
    division: str,
    retries: int,
    cases: list[Case],
    site: Site,
    places: Places,
    seed: int,
    *,
    allow_skip: bool = False,
) -> Plan:
    """The whole plan. The same arguments give the same plan. `allow_skip`: cases that the site is too small for are in
    it, to be skipped, as long as there are others."""
    _check_size(cases)
    large = [case for case in cases if case.id.nnodes > len(site.hosts)]
    if large and len(large) < len(cases) and not allow_skip:
        raise UserError(
            f"case `{large[0].id}` needs {large[0].id.nnodes} nodes; site `{site.name}` has {len(site.hosts)}; "
            f"with --allow-skip `run` skips {len(large)} such case(s) and runs the other {len(cases) - len(large)}"
        )
    skipped = large if len(large) < len(cases) else []
    planned = tuple((_too_large if case in skipped else lay_out)(case, site, places) for case in cases)
    return Plan(SCHEMA, suite, division, site, seed, retries, planned, shuffled_blocks(planned, seed))


def _check_size(cases: list[Case]) -> None:
    """Numbers that nobody can have meant are refused before they fill the memory."""
    for case in cases:
        ranks = case.id.nnodes * case.id.nproc
        if ranks > MOST_RANKS:
            raise UserError(f"case `{case.id}` has {ranks} ranks, allowed are {MOST_RANKS}")
        # The variant grew while the layers were settled.
        if len(case.id.dir_name().encode()) > LONGEST:
            raise UserError(f"case `{case.id}` is too long for a folder name ({LONGEST} bytes)")
    ranks = sum(case.id.nnodes * case.id.nproc for case in cases)
    if ranks > MOST_PLANNED_RANKS:
        raise UserError(
            f"the cases have {ranks} ranks in all, allowed are {MOST_PLANNED_RANKS} in one run; make several suites"
        )
    rounds = sum(_repeat(case) for case in cases)
    if rounds > MOST_ROUNDS:
        raise UserError(f"the cases make {rounds} rounds, allowed are {MOST_ROUNDS}")


def with_peaks(plan: Plan, peaks: Peaks | None) -> Plan:
    """The plan, knowing what its site can reach."""
    if peaks is None:
        return plan
    cases = tuple(msgspec.structs.replace(case, reachable=_reachable(case, peaks)) for case in plan.cases)
    return msgspec.structs.replace(plan, cases=cases, peaks=msgspec.to_builtins(peaks))


def _reachable(case: CasePlan, peaks: Peaks) -> float | None:
    if case.open or case.device != peaks.device or "dtype" not in case.params:
        return None
    return peaks.reachable([node.host for node in case.nodes], case.id.nproc, str(case.params["dtype"]))


def shuffled_blocks(cases: tuple[CasePlan, ...], seed: int) -> tuple[tuple[RoundRef, ...], ...]:
    """Randomised complete blocks: block b holds each case that has a b-th round once, in random order."""
    rounds = range(1, max(case.repeat for case in cases) + 1)
    blocks = [
        [RoundRef(index, number) for index, case in enumerate(cases) if case.repeat >= number] for number in rounds
    ]
    if len(cases) > 1:
        import random  # costs more than all else here

        order = random.Random(seed)  # noqa: S311 - an order, not a secret
        for block in blocks:
            order.shuffle(block)
    return tuple(tuple(block) for block in blocks)


def _repeat(case: Case) -> int:
    """Rounds of a case; the most there can be when its pilot decides."""
    return case.auto.max if case.auto is not None else int(case.id.repeat)


def _network(site: Site) -> dict[str, str]:
    """Which interface the ranks of several hosts meet on, in the words of the libraries that ask."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
    return dict.fromkeys(names, site.interface) if site.interface else {}


def _log_levels(case: Case) -> dict[str, str]:
    if case.log_level is None:
        return {}
    from trainmark.frameworks.log_levels import variables

    return variables(case.log_level, case.id.framework)


def _too_large(case: Case, site: Site, places: Places) -> CasePlan:
    """A case that is planned to be skipped: the nodes that are missing have no name."""
    has, needs = len(site.hosts), case.id.nnodes
    larger = msgspec.structs.replace(site, hosts=[*site.hosts, *[""] * (needs - has)])
    why = reason("site-too-small", needs=needs, has=has, site=site.name)
    return msgspec.structs.replace(lay_out(case, larger, places), skipped=why)


def lay_out(case: Case, site: Site, places: Places) -> CasePlan:
    """One case on the first hosts of the site."""
    case_id, workload, folder = case.id, case.found.workload, case.found.folder
    if case_id.nnodes > len(site.hosts):
        raise UserError(f"case `{case_id}` needs {case_id.nnodes} nodes; site `{site.name}` has {len(site.hosts)}")
    device = device_of(case.vendor, case_id.device, site.name)
    backend = device.backends.get(case_id.framework, "")
    hosts = tuple(site.hosts[: case_id.nnodes])
    argv = _argv(case, places)
    framework = REGISTRY.get(case_id.framework, f"case `{case_id}`")
    names = tuple(host or HOST.format(index) for index, host in enumerate(hosts))
    start = framework.start(_topology(names, case_id.nproc, backend, site, places), argv)
    if start.launched and places.rank_starter and site.container:
        raise UserError(
            f"case `{case_id}`: `{places.rank_starter}` cannot be had inside a container of site `{site.name}`; "
            f"use a site without `container:` for framework `{case_id.framework}`"
        )
    band, band_missing = bands.choose(
        bands.read(folder) if not workload.command else (),
        preset=case.preset,
        framework=case_id.framework,
        data=case.data,
        params=case.values,
        world=case_id.nnodes * case_id.nproc,
        checkpoint=case.checkpoint,
        batch_statistics=workload.batch_statistics,
    )
    planned = CasePlan(
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
        data=_data(case, site, places),
        data_name=case.data if case.data in places.data else None,
        data_required=bool(workload.data and workload.data.required),
        checkpoint=None if case.checkpoint is None else os.path.join(places.here, case.checkpoint),
        flops_per_sample=workload.flops_per_sample,
        target=workload.target,
        probe=workload.probe,
        deadlines=case.deadlines,
        # Neighbours of a port that the site fixed, else any that are free.
        ports=tuple(site.master_port + number if site.master_port else 0 for number in range(start.ports)),
        launched=start.launched,
        files=start.files,
        env={**device.environment, **_network(site), **_log_levels(case), **site.env},
        path=(places.probe, *(str((folder / extra).resolve()) for extra in workload.path)),
        repeat=_repeat(case),
        auto=case.auto,
        nodes=tuple(
            NodePlan(index, host, ranks, start.helpers if index == 0 else ())
            for index, (host, ranks) in enumerate(zip(hosts, start.nodes, strict=True))
        ),
        band=band.stretches if band else (),
        band_missing=band_missing,
        loss_falls=workload.loss == "falling",
        window=case.window,
        length=case.length,
        folder=str(folder.resolve()),
        peak=site.vendor_peaks.get(case_id.device, {}).get(str(case.values.get("dtype"))),
        work=_work(case),
        version="" if workload.command else program_version(folder, tuple(workload.path)),
        studies=case.studies,
        modules=tuple(workload.modules.get(case_id.framework, ())),
        memory=case.memory,
    )
    return _with_command(planned, case) if workload.command else planned


def _work(case: Case) -> float | None:
    """Steps × samples × FLOP of a sample; None where one of them is anybody's guess."""
    workload, values = case.found.workload, case.values
    published = {name: one.default for name, one in workload.parameters.items()}
    steps, each = shape.steps(values), shape.samples_of_a_step(values, workload.unit)
    samples: float | None = None
    if steps and each:
        samples = steps * each * case.id.nnodes * case.id.nproc
    elif steps == 0 and workload.data is not None and workload.data.samples is not None:
        samples = workload.data.samples * float(values.get("epochs", 1))
    if samples is None or workload.flops_per_sample is None:
        return None
    return samples * workload.flops_per_sample * shape.relative_work(values, published, workload.unit)


def _topology(hosts: tuple[str, ...], nproc: int, backend: str, site: Site, places: Places) -> Topology:
    starter, options = places.rank_starter or site.mpi_starter, (*places.rank_options, *site.mpi_options)
    table, text = site.rank_table_file, ""
    if site.rank_table == AUTO_RANK_TABLE and backend == HCCL:
        named = msgspec.structs.replace(site, hosts=["" if host.startswith("%") else host for host in hosts])
        cluster = clusters.of_site(named, nproc, {})
        table, text = f"%DIR%/{ranktable.RANK_TABLE}", ranktable.FORMATS["server_list"](cluster, version="1.0")
    return Topology(hosts, nproc, backend, site.interface, starter, options, table, text)


@cache
def program_version(folder: Path, path: tuple[str, ...]) -> str:
    """What the workload's program is, with the modules it shares with others."""
    found = []
    for place in (folder, *((folder / extra).resolve() for extra in path)):
        for name in sorted(os.listdir(place)) if place.is_dir() else ():
            if name.endswith((".py", ".yaml", ".yml", ".json")):
                found.append(f"{name} {hashlib.sha256((place / name).read_bytes()).hexdigest()}")
    return hashlib.sha256("\n".join(found).encode()).hexdigest()[:12]


def _data(case: Case, site: Site, places: Places) -> str | None:
    """Where the data lies. Ranks have a folder of their own, so a path must not depend on where they are."""
    if case.data is None:
        return None
    found = {**places.data, **site.data}.get(case.data, case.data)
    return found if found == SYNTHETIC else os.path.join(places.here, found)


def _argv(case: Case, places: Places) -> tuple[str, ...]:
    workload = case.found.workload
    if not workload.command:
        python = places.pythons.get(case.id.framework, places.python)
        return python, "-u", str(case.found.folder.resolve() / workload.entry[case.id.framework])
    from trainmark.spec.command import fill  # few cases are commands

    return fill(workload.command, case.values)


def _with_command(planned: CasePlan, case: Case) -> CasePlan:
    """What is different for a command: it runs in its own folder, finds its parameters in the environment, and is
    watched by hooks, or by what it prints, which then shall be read while it runs."""
    from trainmark.spec.command import pattern_of, variables

    workload = case.found.workload
    pattern = pattern_of(workload, f"case `{case.id}`: pattern")
    hooks = str(Path(planned.path[0]) / "site")
    return msgspec.structs.replace(
        planned,
        env={
            **planned.env,
            **({} if pattern is None else {"PYTHONUNBUFFERED": "1"}),
            **workload.env,
            **variables(case.values),
        },
        path=(hooks, *planned.path) if pattern is None else planned.path,
        open=True,
        cwd=str(case.found.folder),
        pattern=pattern,
    )
