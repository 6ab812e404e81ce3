"""The plan as records. It is written whole into a run's manifest, so a run can be understood without its suite."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import msgspec

from trainmark.frameworks.protocol import Command, Helper
from trainmark.reasons import Reason
from trainmark.spec.band import Stretch
from trainmark.spec.case import PRESET_KEY
from trainmark.spec.case_id import CaseId, Value
from trainmark.spec.length import Length
from trainmark.spec.rules import FixedWindow, RepeatAuto
from trainmark.spec.scaling import Series
from trainmark.spec.site import Site, VendorPeak
from trainmark.spec.workload import USUAL_PRESET, Deadlines, Target

SCHEMA = 1
# Of runs that another tool did.
IMPORTED_PRESET = "imported"
# What a run is made for: decides how it is reported, resumed and what goes beside its rounds.
Kind = Literal["benchmark", "acceptance", "diagnosis", "peaks", "goodput", "automl", "fit", "bisect", "live", "import"]
# A case is asked for its address once for every round of it.
_id = lru_cache(maxsize=1024)(CaseId.parse)


class NodePlan(msgspec.Struct, frozen=True):
    """`host` is empty where the launcher is yet to choose it."""

    index: int
    host: str
    ranks: tuple[Command, ...]
    helpers: tuple[Helper, ...] = ()


class Diagnostic(msgspec.Struct, frozen=True):
    """A round that is looked into and never timed: `plain`, traced, or training `alone`, without sharing gradients."""

    mode: Literal["plain", "trace", "alone"]
    # The case it explains. Steps before the first that counts, and steps that count; then the round ends.
    of: str
    skip: int
    steps: int


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
    # What the loss must be like: in this band; else falling, `band_missing` being why no band applies; else anything.
    band: tuple[Stretch, ...] = ()
    band_missing: Reason | str | None = None
    loss_falls: bool = False
    # Set when the pilot decides how many rounds there are; `repeat` is then the most there can be.
    auto: RepeatAuto | None = None
    window: FixedWindow | None = None
    # The framework's own launcher starts the ranks; files it needs on each node.
    launched: bool = False
    files: dict[str, str] = {}
    # Files of the controller's machine that each node is handed with the attempt, by name: in the folder `secrets` of
    # the attempt, mode 0600. What they hold is nowhere else in the run.
    handed: dict[str, str] = {}
    # A command of the user's own: ranks are not known before they speak, and it runs where its user would run it.
    open: bool = False
    cwd: str | None = None
    # How its output is read, as the node plan says it.
    pattern: dict[str, Any] | None = None
    # The workload's own folder on the machine of the controller; empty for one that has none.
    folder: str = ""
    # What the site says one device can do in the case's number format.
    peak: VendorPeak | None = None
    diagnostic: Diagnostic | None = None
    # FLOP/s that the site's peaks say its ranks can reach together, in its number format.
    reachable: float | None = None
    # FLOP of a round, all ranks together, as far as its parameters tell: good for an estimate of time.
    work: float | None = None
    # A hash of the workload's files; empty where they are not ours to look at.
    version: str = ""
    # The series of scaling studies it belongs to.
    studies: tuple[Series, ...] = ()
    # Modules that its ranks import beside their framework.
    modules: tuple[str, ...] = ()
    # Bytes each rank may use; 0: its share of what its host has free; None: no limit.
    memory: int | None = None
    # Why it is skipped, if that was clear when it was planned.
    skipped: Reason | None = None
    # How often it is started again after a crash of its own: for workers, whose results are on record elsewhere.
    restarts: int = 0
    # How long its rounds train; None: the steps of its parameters.
    length: Length | None = None
    # Its spool has a short name: sockets lie in it, whose paths may have 107 bytes.
    short_spool: bool = False

    @property
    def id(self) -> CaseId:
        return _id(self.case)

    @property
    def identity(self) -> str:
        """By which cases of different runs are the same: everything but the number of rounds. Ids of older runs do not
        say their preset, so it is taken from the plan."""
        found = self.id
        variant = dict(found.variant)
        if self.open or self.preset in (USUAL_PRESET, IMPORTED_PRESET) or PRESET_KEY in variant:
            return found.identity
        return found.with_variant({**variant, PRESET_KEY: self.preset}).identity

    @property
    def world(self) -> int | None:
        """How many ranks there are; None when only they know."""
        if self.launched:
            return self.id.nnodes * self.id.nproc
        return None if self.open else sum(len(node.ranks) for node in self.nodes)

    @property
    def starter(self) -> str | None:
        """The program that starts the ranks, where agents do not."""
        if not self.launched:
            return None
        from trainmark.frameworks.launched import starter

        return starter(self.nodes[0].ranks[0])

    @property
    def foreign_ranks(self) -> bool:
        """Whether ranks are started by something else than agents."""
        return self.open or self.launched


def bare(case: CaseId, nodes: tuple[NodePlan, ...], deadlines: Deadlines, **more: Any) -> CasePlan:
    """A case of which only this is known: it needs no device, data, port or environment."""
    known: dict[str, Any] = {
        "case": str(case),
        "fingerprint": "0" * 16,
        "workload": case.workload,
        "unit": "samples",
        "framework": case.framework_text,
        "device": case.device,
        "vendor": case.device,
        "preset": USUAL_PRESET,
        "division": "closed",
        "repeat": int(case.repeat),
        "params": {},
        "origins": {},
        **dict.fromkeys(("visible", "data", "data_name", "checkpoint", "flops_per_sample", "target")),
        **dict.fromkeys(("opened", "ports", "path"), ()),
        "backend": "",
        "data_required": False,
        "probe": False,
        "env": {},
    }
    return CasePlan(nodes=nodes, deadlines=deadlines, **{**known, **more})


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
    # How many rounds of a block may run at the same time; never two on one host, unless they share it: those that are
    # measured for speed do not.
    width: int = 1
    sharing: bool = False
    # A round whose process was killed goes on from its checkpoint, as a round lost to the machine does.
    recover: bool = False
    # A rank that is killed once in each case, to see how it recovers.
    kill: int | None = None
    # What the site can reach, as it was known when the plan was made: a record of spec/peaks.py, which few plans have.
    peaks: dict[str, Any] | None = None
    # Where the peaks that it measures are kept.
    peaks_file: str = ""
    # After so many seconds no further block is begun, once `least_blocks` of them are over; None: all are run.
    blocks_within: float | None = None
    least_blocks: int = 0
    kind: Kind = "benchmark"
    # The YAML that the suite was read from, where it was.
    suite_text: str = ""
    # A name that two runs share whose blocks were taken in turns: round for round they are of the same time.
    turns: str = ""
    # Seconds for the whole run, after which a case that has a result gets no further round.
    within: float | None = None

    @property
    def rank_table(self) -> str | None:
        """The site's, if there are ranks that are told of it."""
        ranks = (rank for case in self.cases for node in case.nodes for rank in node.ranks)
        table = self.site.rank_table
        return table if table and any(table in rank.env.values() for rank in ranks) else None

    @property
    def order(self) -> list[RoundRef]:
        return [ref for block in self.blocks for ref in block]
