"""The plan as records. It is written whole into a run's manifest, so a run can be understood without its suite."""

from __future__ import annotations

import msgspec

from trainmark.frameworks import Command
from trainmark.spec.case_id import CaseId, Value
from trainmark.spec.site import Site
from trainmark.spec.workload import Deadlines, Target

SCHEMA = 1


class NodePlan(msgspec.Struct, frozen=True):
    index: int
    host: str
    ranks: tuple[Command, ...]


class CasePlan(msgspec.Struct, frozen=True):
    """One case with all that its rounds need."""

    case: str
    fingerprint: str
    workload: str
    unit: str
    framework: str
    device: str
    vendor: str
    visible: str | None
    backend: str
    preset: str
    division: str
    opened: tuple[str, ...]
    params: dict[str, Value]
    origins: dict[str, str]
    data: str | None
    data_name: str | None
    data_required: bool
    checkpoint: str | None
    flops_per_sample: float | None
    target: Target | None
    probe: bool
    deadlines: Deadlines
    ports: tuple[int, ...]
    env: dict[str, str]
    path: tuple[str, ...]
    repeat: int
    nodes: tuple[NodePlan, ...]
    # The workload's own folder on the machine of the controller; empty for one that has none.
    folder: str = ""

    @property
    def id(self) -> CaseId:
        return CaseId.parse(self.case)

    @property
    def world(self) -> int:
        return sum(len(node.ranks) for node in self.nodes)


class RoundRef(msgspec.Struct, frozen=True, order=True):
    """The round-th time the case-th case of the plan runs; rounds count from 1."""

    case: int
    round: int


class Plan(msgspec.Struct, frozen=True):
    schema: int
    suite: str
    division: str
    site: Site
    seed: int
    retries: int
    cases: tuple[CasePlan, ...]
    blocks: tuple[tuple[RoundRef, ...], ...]

    @property
    def order(self) -> list[RoundRef]:
        return [ref for block in self.blocks for ref in block]
