"""`compare --live`: two runs whose blocks are taken in turns, A and B, B and A, so that only what differs between them
is left. Both are ordinary runs beside the others; the campaign only says whose turn it is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trainmark.campaigns import asked as asking
from trainmark.errors import UserError, one_of
from trainmark.plan import turns
from trainmark.plan.records import Plan
from trainmark.run import campaign, planning
from trainmark.run.campaign import Campaign, Driver, Shown, Step
from trainmark.run.stop import Switch
from trainmark.spec import suite as suites
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded
from trainmark.spec.suite_cases import wanted_batches
from trainmark.store import rundir, secrets
from trainmark.store.rundir import RunDir


class Judging(msgspec.Struct, frozen=True):
    """How the two are compared when both are over."""

    metric: str = "throughput"
    margin: float = 0.03
    threshold: float = 0.05
    force: bool = False


class Asked(msgspec.Struct, frozen=True):
    """What was asked for, as the campaign's record holds it. `runs`: A and B, by the path from its folder."""

    runs: tuple[str, str]
    blocks: int
    seed: int
    judging: Judging


def plan_of_run(run: RunDir, case: str) -> Plan:
    """The plan of a run that was made, to be run again. `case`: how the id of the one case begins; empty: all."""
    plan = run.manifest().plan
    if plan.kind != "benchmark":
        raise UserError(f"{run.id}: a run of kind `{plan.kind}` cannot be run again here; name two benchmarks")
    identity = planning.case_named(run, plan, case) if case else None
    plan = secrets.whole(run, turns.again(plan, identity))
    if not plan.cases:
        raise UserError(f"{run.id}: all its cases were skipped; there is nothing to run again")
    return plan


def plan_of_suite(
    loaded: Loaded, site: Site, site_file: Path | None, changed: Mapping[str, str], seed: int | None
) -> Plan:
    if wanted_batches(loaded):
        raise UserError(f"{loaded.where.file}: `batch: max` is looked for by `trainmark run`; name that run here")
    return planning.with_kept_peaks(planning.plan_suite(loaded, site, changed, seed), site_file)


def load(name: str, runs: Path, preset: str | None, seconds: float | None) -> Loaded | tuple[RunDir, str]:
    """What a name means: a suite, a case, or a run and one of its cases."""
    named = planning.named_run(runs, name)
    if named is not None:
        for option, value in (("--preset", preset), ("--seconds", seconds)):
            if value is not None:
                raise UserError(f"{option}: {name} is run again as it was; name its case or suite instead")
        return named
    loaded = planning.load_suite(name, preset if _is_case(name) else None)
    return loaded if seconds is None else suites.measured_for(loaded, seconds)


def _is_case(name: str) -> bool:
    return ":" in name and not name.endswith((".yaml", ".yml"))


def create(
    sides: Sequence[Plan],
    runs: Path,
    judging: Judging,
    *,
    rounds: int | None = None,
    seed: int | None = None,
    check: bool = True,
    command: Sequence[str] = (),
) -> Campaign:
    """Both runs, and who begins each block. Nothing is started."""
    if len(sides) != 2:
        raise UserError(f"--live takes two sides in turns, found {len(sides)}")
    number = turns.rounds_of(sides, rounds)
    drawn = planning.random_seed() if seed is None else seed
    name = f".live-{sides[0].suite}-{os.urandom(2).hex()}"
    plans = [turns.in_turns(plan, number, drawn, name) for plan in sides]
    if not turns.partners(plans[0].cases, plans[1].cases):
        raise UserError(
            "A and B have no case in common: they are matched by id (all but the rounds), or in their order where "
            f"both have as many; A has {one_of([one.case for one in plans[0].cases])}, "
            f"B has {one_of([one.case for one in plans[1].cases])}"
        )
    runs = runs.resolve()
    for plan in plans:
        planning.check(plan, runs, hosts=check)
    folders = [rundir.create(runs, plan.suite) for plan in plans]
    a, b = (os.path.relpath(run.path, runs / name) for run in folders)
    asked = Asked((a, b), number, drawn, judging)
    made = campaign.create(runs / name, "live", asked, command)
    for run, plan in zip(folders, plans, strict=True):
        made.describe(run, plan)
    return made


def asked_of(made: Campaign) -> Asked:
    return asking.read(made.record().asked, Asked, made.name)


def go(made: Campaign, driver: Driver, switch: Switch | None = None) -> tuple[RunDir, RunDir] | None:
    """Goes on to the end of both runs; None if it was stopped."""
    wanted = asked_of(made)
    if made.go(_Turns(made, wanted), driver, switch) is None:
        return None
    a, b = (RunDir(Path(os.path.normpath(made.folder / name))) for name in wanted.runs)
    return a, b


def blocks_of(step: Step) -> int:
    """Up to which block a turn drives its run."""
    return int(step.arguments["block"])


class _Turns:
    def __init__(self, made: Campaign, wanted: Asked) -> None:
        self._made, self._asked = made, wanted
        self._order = turns.order(wanted.blocks, wanted.seed)

    def next(self, shown: Sequence[Shown]) -> Step | None:
        if len(shown) >= len(self._order):
            return None
        side, block = self._order[len(shown)]
        return Step("turn", {"side": side, "block": block}, self._asked.runs["AB".index(side)])

    def folder(self, _step: Step) -> Path:
        return self._made.folder.parent

    def plan(self, _step: Step) -> Plan:
        raise UserError(f"{self._made.name} was ended before its runs were there; begin anew")

    def read(self, _step: Step, _run: RunDir) -> None:
        """Nothing is decided on the way: when to stop is known beforehand, so that no lucky moment is chosen."""
