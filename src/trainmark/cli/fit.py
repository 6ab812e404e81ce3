"""Largest batches that a suite asks for (`batch: max`), looked for before its plan can be made."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

from trainmark.cli import common
from trainmark.errors import UserError
from trainmark.run import fit, planning
from trainmark.run.stop import StopSwitch, on_signals
from trainmark.spec import suite_cases
from trainmark.spec.case import Case, Setting
from trainmark.spec.case_id import CaseId, value_text
from trainmark.spec.scaling import Fitted, Wanted
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded

# Optimizers make their state in the first step: with the third, a process has seen its peak.
_STEPS = 3


def found(loaded: Loaded, site: Site, args: argparse.Namespace, wanted: list[Wanted]) -> Loaded:
    """The suite with every largest batch known. Tries are kept beside the runs, in a folder that lists leave out."""
    folder = args.runs.resolve() / f".fit-{loaded.suite.name}-{os.urandom(2).hex()}"
    fits: dict[str, Fitted] = {}
    switch = StopSwitch()
    with on_signals(switch):
        for one in wanted:
            fits[one.key] = _largest(loaded, site, args, wanted, one, folder, switch)
    return msgspec.structs.replace(loaded, fits=fits)


def _largest(
    loaded: Loaded,
    site: Site,
    args: argparse.Namespace,
    wanted: list[Wanted],
    one: Wanted,
    folder: Path,
    switch: StopSwitch,
) -> Fitted:
    def tried(batch: int) -> fit.Tried:
        case = _case(loaded, site, args, {other.key: other.step for other in wanted} | {one.key: batch}, one)
        answer = fit.attempt(
            msgspec.structs.replace(planning.plan_cases(loaded, [case], site, args.seed), kind="fit"), folder, switch
        )
        words = "fits" if answer.fits else f"does not fit: {answer.oom}"
        sys.stderr.write(f"{one.case.identity}: a batch of {batch} {words}\n")
        return answer

    case = _case(loaded, site, args, {other.key: other.step for other in wanted}, one)
    top = case.found.workload.parameters["batch"].max
    batch, beyond = fit.largest(tried, one.step, None if top is None else int(top))
    if batch == 0:
        raise UserError(f"{one.place}: not even a batch of {one.step} fits; say a smaller `batch_step` ({folder})")
    end = f"{beyond} ran out of memory" if beyond else "no larger one was tried"
    return Fitted(batch, f"{batch} is the largest multiple of {one.step} that fits ({end})")


def _case(loaded: Loaded, site: Site, args: argparse.Namespace, batches: dict[str, int], one: Wanted) -> Case:
    """The case of a try: that of the study with this batch, for a few steps."""
    guessed = msgspec.structs.replace(loaded, fits={key: Fitted(batch, "") for key, batch in batches.items()})
    asked = one.case.with_variant({**dict(one.case.variant), "batch": batches[one.key]})
    for case in suite_cases.expand(guessed, site, common.overrides(args)):
        if _same(case, asked):
            return _short(case)
    raise ValueError(f"{asked} is no case of the study")


def _same(case: Case, asked: CaseId) -> bool:
    head = ("workload", "framework", "version", "device", "nnodes", "nproc")
    values = {name: value_text(value) for name, value in case.values.items()}
    return all(getattr(case.id, name) == getattr(asked, name) for name in head) and all(
        values.get(name) == value for name, value in asked.variant
    )


def _short(case: Case) -> Case:
    params = dict(case.params)
    variant = dict(case.id.variant)
    if "steps" in params:
        params["steps"] = Setting(_STEPS, "batch: max")
        variant["steps"] = str(_STEPS)
    short = msgspec.structs.replace(case.id, repeat=1).with_variant(dict(variant))
    return msgspec.structs.replace(case, id=short, params=params, window=None, studies=(), auto=None)
