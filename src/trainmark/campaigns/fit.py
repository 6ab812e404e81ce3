"""`batch: max`: the largest batches that a suite asks for, found by trying, and then the run with them.

Each try is a run of its own, in its own processes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trainmark.campaigns import asked as asking
from trainmark.campaigns.asked import AskedSuite
from trainmark.errors import SiteError, UserError
from trainmark.i18n.speaker import say
from trainmark.plan.records import Plan
from trainmark.reasons import Reason, reason
from trainmark.report.run_log import drive_quietly
from trainmark.run import campaign, planning, session
from trainmark.run.campaign import Campaign, Shown, Step, Tell
from trainmark.run.stop import Switch
from trainmark.spec.case import Case, Setting
from trainmark.spec.case_id import CaseId, value_text
from trainmark.spec.scaling import Fitted, Wanted
from trainmark.spec.shape import STEPS
from trainmark.spec.states import JobState
from trainmark.spec.suite_cases import expand, wanted_batches
from trainmark.store.rundir import RunDir

# Beyond so many steps of the search nothing was going to run out.
MOST_MULTIPLES = 4096
# Optimizers make their state in the first step: with the third, a process has seen its peak.
_STEPS = 3
TRY, RUN = "try", "run"


class Tried(msgspec.Struct, frozen=True):
    """How a batch did. `reason` says why it did not fit."""

    fits: bool
    reason: Reason | None = None


class Largest(msgspec.Struct, frozen=True):
    """The largest batch that fits, 0 when none does, and the smallest that was seen not to."""

    batch: int
    beyond: int | None


def next_batch(tried: Mapping[int, bool], step: int, most: int | None) -> int | Largest:
    """The next batch to try, or the answer. `tried`: which batches fit; `step`: what batches are multiples of.

    Doubles until something breaks, then halves the gap: 12 tries for the largest of 64 multiples, not 64.
    """
    limit = MOST_MULTIPLES if most is None else min(MOST_MULTIPLES, most // step)
    good = max((batch // step for batch, fits in tried.items() if fits), default=0)
    bad = min((batch // step for batch, fits in tried.items() if not fits), default=None)
    if bad is None and good < limit:
        return min(max(1, 2 * good), limit) * step
    if bad is not None and bad - good > 1:
        return (good + bad) // 2 * step
    return Largest(good * step, None if bad is None else bad * step)


class Asked(msgspec.Struct, frozen=True):
    """What was asked for, as the campaign's record holds it. `runs`: where the run with the found batches goes."""

    suite: AskedSuite
    runs: str
    # Whether the site's hosts are looked at before that run.
    check: bool = True


def create(suite: AskedSuite, runs: Path, *, check: bool = True, command: Sequence[str] = ()) -> Campaign:
    """Tries are kept beside the runs, in a folder that lists leave out. Nothing is started."""
    runs = runs.resolve()
    folder = runs / f".fit-{suite.suite.name}-{os.urandom(2).hex()}"
    return campaign.create(folder, "fit", Asked(suite, str(runs), check), command)


def go(made: Campaign, tell: Tell, switch: Switch | None = None) -> RunDir | None:
    """Finds the batches, and makes the run with them, which the caller drives as any other. None if it was stopped."""
    if made.go(_Fit(made, tell), _only_tries, switch) is None:
        return None
    return made.run(made.record().members[-1])


def _only_tries(step: Step, run: RunDir, plan: Plan, switch: Switch) -> JobState:
    return JobState.PENDING if step.what == RUN else drive_quietly(step, run, plan, switch)


class _Fit:
    """All tries of one batch, then those of the next; the run with all of them is the last member."""

    def __init__(self, made: Campaign, tell: Tell) -> None:
        self._made, self._tell, self._told = made, tell, 0
        self._asked = asking.read(made.record().asked, Asked, made.name)
        self._loaded = self._asked.suite.loaded()
        self._wanted = {one.key: one for one in wanted_batches(self._loaded)}
        smallest = {key: one.step for key, one in self._wanted.items()}
        self._most = {key: _most(self._case(one, smallest)) for key, one in self._wanted.items()}

    def next(self, shown: Sequence[Shown]) -> Step | None:
        for step, tried in shown[self._told :]:
            if step.what == TRY:
                self._tell_try(step, tried)
        self._told = len(shown)
        try:
            return next_step(list(self._wanted.values()), self._most, shown)
        except UserError as error:
            raise UserError(f"{error} ({self._made.folder})") from None

    def _tell_try(self, step: Step, tried: Tried) -> None:
        wanted = self._wanted[step.arguments["key"]]
        code = "fit-fits" if tried.fits else "fit-does-not-fit"
        self._tell(reason(code, case=wanted.case.identity, batch=step.arguments["batch"], why=tried.reason))

    def folder(self, step: Step) -> Path:
        return Path(self._asked.runs) if step.what == RUN else self._made.folder

    def plan(self, step: Step) -> Plan:
        suite = self._asked.suite
        if step.what == RUN:
            fits = msgspec.convert(step.arguments["fits"], dict[str, Fitted])
            loaded = msgspec.structs.replace(self._loaded, fits=fits)
            plan = planning.plan_suite(loaded, suite.site, suite.changed, suite.seed)
            plan = planning.with_kept_peaks(plan, None if suite.site_file is None else Path(suite.site_file))
            planning.check(plan, Path(self._asked.runs), hosts=self._asked.check)
            return plan
        wanted = self._wanted[step.arguments["key"]]
        batches = {key: one.step for key, one in self._wanted.items()} | {wanted.key: step.arguments["batch"]}
        plan = planning.plan_cases(self._loaded, [_short(self._case(wanted, batches))], suite.site, suite.seed)
        return msgspec.structs.replace(plan, kind="fit")

    def _case(self, wanted: Wanted, batches: Mapping[str, int]) -> Case:
        """The case of the study with these batches."""
        suite = self._asked.suite
        fits = {key: Fitted(batch, "") for key, batch in batches.items()}
        asked = wanted.case.with_variant({**dict(wanted.case.variant), "batch": batches[wanted.key]})
        for case in expand(msgspec.structs.replace(self._loaded, fits=fits), suite.site, suite.changed):
            if _same(case, asked):
                return case
        raise ValueError(f"{asked} is no case of the study")

    def read(self, step: Step, run: RunDir) -> Tried | None:
        """Only memory that ran out counts as `does not fit`."""
        if step.what == RUN:
            return None
        plan = run.manifest().plan
        state = session.state_of(run, plan)
        outcome, why = state.case_outcome(0)
        if outcome is JobState.SUCCEEDED:
            return Tried(True)
        last = state.rounds[plan.order[0]].last()
        failure = (last.failure if last else None) or {}
        if failure.get("kind") == "oom":
            return Tried(False, why)
        lines = failure.get("last_lines") or [""]
        end = f": {lines[-1]}" if lines[-1] else ""
        raise SiteError(
            f"{plan.cases[0].case}: {outcome} while looking for the largest batch: {say(why)}{end} ({run.path})"
        )


def next_step(wanted: Sequence[Wanted], most: Mapping[str, int | None], shown: Sequence[Shown]) -> Step | None:
    """The next try of the first batch that is not known yet; when all are, the run with them. Pure."""
    if any(step.what == RUN for step, _ in shown):
        return None
    fits: dict[str, Fitted] = {}
    for one in wanted:
        mine = {
            int(step.arguments["batch"]): bool(tried.fits) for step, tried in shown if step.arguments["key"] == one.key
        }
        found = next_batch(mine, one.step, most[one.key])
        if isinstance(found, int):
            return Step(TRY, {"key": one.key, "batch": found})
        if found.batch == 0:
            raise UserError(f"{one.place}: not even a batch of {one.step} fits; say a smaller `batch_step`")
        code = "fit-largest" if found.beyond else "fit-largest-tried"
        note = reason(code, batch=found.batch, step=one.step, beyond=found.beyond)
        fits[one.key] = Fitted(found.batch, note)
    return Step(RUN, {"fits": msgspec.to_builtins(fits)})


def _most(case: Case) -> int | None:
    """The largest batch that its workload allows."""
    most = case.found.workload.parameters["batch"].max
    return None if most is None else int(most)


def _same(case: Case, asked: CaseId) -> bool:
    head = ("workload", "framework", "version", "device", "nnodes", "nproc")
    values = {name: value_text(value) for name, value in case.values.items()}
    return all(getattr(case.id, name) == getattr(asked, name) for name in head) and all(
        values.get(name) == value for name, value in asked.variant
    )


def _short(case: Case) -> Case:
    """A try takes a few steps only."""
    params = dict(case.params)
    variant = dict(case.id.variant)
    for name in STEPS:
        if name in params:
            params[name] = Setting(_STEPS, "batch: max")
            variant[name] = str(_STEPS)
    short = msgspec.structs.replace(case.id, repeat=1).with_variant(dict(variant))
    return msgspec.structs.replace(case, id=short, params=params, window=None, length=None, studies=(), auto=None)
