"""Plans that hold nodes against each other: one case, bound to every node or to every pair of them, in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from trainmark.errors import UserError
from trainmark.plan.build import Places, lay_out, shuffled_blocks
from trainmark.plan.records import SCHEMA, CasePlan, Plan, RoundRef
from trainmark.spec.case import Case
from trainmark.spec.site import Site

# What the id of a bound case says of its hosts.
ON = "on"
# What runs of an acceptance are named after.
_SUITE = "accept"
Pairs = Sequence[Sequence[tuple[str, str]]]


def bound(case: Case, site: Site, places: Places, hosts: Sequence[str], rounds: int) -> CasePlan:
    """The case on these very hosts. Its fingerprint is that of the case: it is the same wherever it runs."""
    planned = lay_out(case, msgspec.structs.replace(site, hosts=list(hosts)), places)
    name = case.id.with_variant({**dict(case.id.variant), ON: "~".join(hosts)})
    return msgspec.structs.replace(
        planned, case=str(msgspec.structs.replace(name, repeat=rounds)), repeat=rounds, auto=None
    )


def hosts_of(case: CasePlan) -> tuple[str, ...]:
    return tuple(node.host for node in case.nodes)


def on_nodes(
    case: Case, site: Site, places: Places, hosts: Sequence[str], blocks: int, seed: int, *, together: bool
) -> Plan:
    """Every node runs the case once in each block, in random order; `together`: all nodes of a block at once."""
    if case.id.nnodes != 1:
        raise UserError(f"case `{case.id}` is for {case.id.nnodes} nodes; single nodes are compared by a case for 1")
    cases = tuple(bound(case, site, places, [host], blocks) for host in hosts)
    return _plan(case, site, seed, cases, shuffled_blocks(cases, seed), len(hosts) if together else 1)


def again(plan: Plan, hosts: Sequence[str], seed: int, blocks: int | None = None) -> Plan:
    """The same blocks, or so many, for some of the nodes only. No other is asked for, or held meanwhile."""
    of_host = {hosts_of(case): case for case in plan.cases}
    cases = tuple(_repeated(of_host[host,], blocks) for host in hosts)
    site = msgspec.structs.replace(plan.site, hosts=list(hosts))
    order, width = shuffled_blocks(cases, seed), min(plan.width, len(cases))
    return msgspec.structs.replace(plan, site=site, seed=seed, cases=cases, blocks=order, width=width)


def _repeated(case: CasePlan, rounds: int | None) -> CasePlan:
    if rounds is None:
        return case
    return msgspec.structs.replace(case, case=str(msgspec.structs.replace(case.id, repeat=rounds)), repeat=rounds)


def on_pairs(case: Case, site: Site, places: Places, rounds: Pairs, blocks: int, seed: int, *, together: bool) -> Plan:
    """Every pair runs the case once in each block. The pairs of a tournament's round have no node in common, and run
    at once where they may."""
    import random

    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    pairs = [pair for pairing in rounds for pair in pairing]
    cases = tuple(bound(case, site, places, pair, blocks) for pair in pairs)
    at = {pair: index for index, pair in enumerate(pairs)}
    made = []
    for number in range(1, blocks + 1):
        for pairing in order.sample(list(rounds), len(rounds)):
            made.append(tuple(RoundRef(at[pair], number) for pair in order.sample(list(pairing), len(pairing))))
    widest = max((len(pairing) for pairing in rounds), default=1)
    return _plan(case, site, seed, cases, tuple(made), widest if together else 1)


def _plan(
    case: Case, site: Site, seed: int, cases: tuple[CasePlan, ...], blocks: tuple[tuple[RoundRef, ...], ...], width: int
) -> Plan:
    return Plan(SCHEMA, _SUITE, case.division, site, seed, 1, cases, blocks, max(1, width), kind="acceptance")
