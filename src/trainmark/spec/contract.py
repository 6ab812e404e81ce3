"""What was promised of a machine: a contract, written by people, and criteria, learnt from nodes known to be good.

Both are data. Nothing in them is ever evaluated, and a key that is not known is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from trainmark.errors import UserError, one_of
from trainmark.spec import yamlfile
from trainmark.spec.case_id import CaseId
from trainmark.spec.notation import parse_share
from trainmark.spec.yamlfile import Location, convert


class Least(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min: float


class Most(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max: str | float


class Promise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one case: units of the workload by second on every node, and how far nodes may be apart."""

    throughput: Least | None = None
    spread: Most | None = None


class Limits(msgspec.Struct, frozen=True):
    """A promise, read."""

    throughput: float | None = None
    spread: float | None = None


# By the case's identity, which its number of rounds is no part of.
Contract = dict[str, Limits]


def load_contract(path: Path) -> Contract:
    raw = yamlfile.load(path)
    if not isinstance(raw, dict) or not raw:
        raise UserError(f"{path}: expected `CASE: {{throughput: {{min: …}}, spread: {{max: …}}}}`; found {raw!r}")
    found: Contract = {}
    for key, value in raw.items():
        place = f"{path}: {key}"
        try:
            identity = CaseId.parse(key).identity
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        if identity in found:
            raise UserError(f"{place}: the same case stands there twice")
        found[identity] = _limits(convert(value, Promise, Location(str(path), (key,))), place)
    return found


def _limits(promise: Promise, place: str) -> Limits:
    if promise.throughput is None and promise.spread is None:
        raise UserError(f"{place}: promises nothing; give `throughput: {{min: …}}` or `spread: {{max: …}}`")
    least = promise.throughput.min if promise.throughput else None
    if least is not None and not 0 < least < float("inf"):
        raise UserError(f"{place}.throughput.min: found {least!r}, allowed is a number above 0")
    spread = parse_share(promise.spread.max, f"{place}.spread.max") if promise.spread else None
    return Limits(least, spread)


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How fast good nodes, or links, are: the median of their speeds, and the spread of ln(speed) between them and
    from block to block."""

    fingerprint: str
    unit: str
    median: float
    between: float
    within: float
    count: int
    blocks: int


class Criteria(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `accept --learn` writes and `--criteria` reads; `cases` by identity."""

    schema: Literal[1]
    made: str
    trainmark: str
    site: str
    margin: float
    cases: dict[str, Criterion]


def load_criteria(path: Path) -> Criteria:
    raw: Any = yamlfile.load(path)
    found = convert(raw, Criteria, str(path))
    for key, one in found.cases.items():
        if not (0 < one.median < float("inf") and one.count > 0 and one.blocks > 0):
            raise UserError(f"{path}: cases.{key}: median, count and blocks must be above 0")
        if not (0 <= one.between < float("inf") and 0 <= one.within < float("inf")):
            raise UserError(f"{path}: cases.{key}: spreads must be 0 or more")
    return found


def of_case(criteria: Criteria, case: CaseId, fingerprint: str, path: Path) -> Criterion | None:
    """The criterion of a case. One learnt with other settings says nothing, and is refused."""
    found = criteria.cases.get(case.identity)
    if found is not None and found.fingerprint != fingerprint:
        raise UserError(
            f"{path}: cases.{case.identity}: was learnt with other settings (fingerprint {found.fingerprint}, "
            f"now {fingerprint}); learn it again with `accept --learn`"
        )
    return found


def check_used(known: object, wanted: CaseId, path: Path) -> None:
    """Whether a file says anything of the case; it may say more of others."""
    if wanted.identity not in known:  # type: ignore[operator]
        raise UserError(f"{path}: says nothing of case `{wanted.identity}`; it has {one_of(known)}")
