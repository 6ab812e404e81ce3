"""What `doctor` looks at in a training service, and what is looked at before a run: nothing is made or changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from trainmark import extras
from trainmark.errors import UserError
from trainmark.launch import devices
from trainmark.launch.modelarts import credentials
from trainmark.launch.modelarts import options as modelarts_options
from trainmark.launch.modelarts.calls import CallFailed, explained
from trainmark.launch.modelarts.object_store import ObjectStore
from trainmark.launch.modelarts.options import ModelArtsOptions
from trainmark.launch.modelarts.service import TrainingService
from trainmark.launch.protocol import Finding
from trainmark.plan.records import Plan
from trainmark.reasons import reason
from trainmark.spec.site import Site


def findings(site: Site, plan: Plan | None, service: TrainingService, store: ObjectStore) -> Iterator[Finding]:
    options, host = modelarts_options.of(site), site.name
    for module in ("huaweicloudsdkmodelarts", "obs"):
        if not extras.present(module):
            yield Finding(host, "client", False, f"no module {module}", extras.command(module))
            return
    try:
        keys = credentials.load(options.credentials)
    except UserError as error:
        yield Finding(host, "keys", False, str(error))
        return
    yield Finding(host, "keys", True, f"{keys!r} from {options.credentials}")
    yield from _resources(options, host, service)
    if plan is not None and options.flavor:
        yield from _devices(options, host, service, plan)
    if options.nodes > 1:
        yield Finding(
            host, "nodes", True, f"{options.nodes} in each job" + (", each alone" if options.single_server else "")
        )
    yield from _places(options, host, store)
    wanted = {case.data for case in plan.cases} if plan is not None else set(site.data.values())
    for place in sorted(str(one) for one in wanted if str(one or "").startswith("obs://")):
        yield _data(options, host, store, place)


def _asked(host: str, what: str, ask: Callable[[], Finding]) -> Finding:
    try:
        return ask()
    except CallFailed as error:
        return Finding(host, what, False, str(explained(error)))


def _resources(options: ModelArtsOptions, host: str, service: TrainingService) -> Iterator[Finding]:
    def flavor() -> Finding:
        known = service.flavors()
        if options.flavor not in known:
            names = ", ".join(sorted(known)) or "none"
            return Finding(host, "flavor", False, f"there is no {options.flavor}", f"there are: {names}")
        most = known[str(options.flavor)].most
        if most is not None and 0 < most < options.nodes:
            return Finding(host, "flavor", False, f"{options.flavor}: at most {most} nodes", "ask for fewer in `nodes`")
        return Finding(host, "flavor", True, str(options.flavor))

    def pool() -> Finding:
        known = service.pools()
        good = options.pool in known
        return Finding(
            host, "pool", good, str(options.pool), "" if good else f"there are: {', '.join(known) or 'none'}"
        )

    def quota() -> Finding:
        found = [(name, limit, used) for name, limit, used in service.quotas() if limit > 0]
        text = ", ".join(f"{name} {used} of {limit}" for name, limit, used in found) or "no limit told"
        full = any(used + options.nodes > limit for name, limit, used in found if "node" in name.lower())
        return Finding(host, "quota", None if full else True, text, "jobs may be refused" if full else "")

    yield _asked(host, "pool", pool) if options.pool else _asked(host, "flavor", flavor)
    yield _asked(host, "quota", quota)


def _devices(options: ModelArtsOptions, host: str, service: TrainingService, plan: Plan) -> Iterator[Finding]:
    """Whether a worker of the flavor has a device for each rank. Of a pool nobody tells: its agents look."""
    try:
        flavor = service.flavors().get(str(options.flavor))
    except CallFailed:
        return  # said above
    for vendor in devices.wanted(plan):
        ranks = max(case.id.nproc for case in plan.cases if case.vendor == vendor)
        cards = flavor.cards(vendor) if flavor is not None else None
        if cards is None or cards >= ranks:
            continue
        none = reason("device-absent", vendor=vendor)
        why = reason("devices-fewer", vendor=vendor, ranks=ranks, count=cards) if cards else none
        yield Finding(host, "devices", False, why, reason("device-cure-flavor", flavor=options.flavor))


def _places(options: ModelArtsOptions, host: str, store: ObjectStore) -> Iterator[Finding]:
    for name in ("code", "output"):
        place = getattr(options, name)

        def ask(name: str = name, place: str = place) -> Finding:
            store.check_bucket(modelarts_options.split(place)[0])
            return Finding(host, name, True, place)

        yield _asked(host, name, ask)


def _data(options: ModelArtsOptions, host: str, store: ObjectStore, place: str) -> Finding:
    bucket, prefix = modelarts_options.split(place)

    def ask() -> Finding:
        lacking = [name for name in options.data_layout if next(iter(store.below(bucket, prefix + name)), None) is None]
        if lacking:
            cure = "put it there, or say in `data_layout` what there is"
            return Finding(host, "data", False, f"{place} has no {', '.join(lacking)}", cure)
        return Finding(host, "data", True, f"{place} has {', '.join(options.data_layout)}")

    return _asked(host, "data", ask)
