"""The library's campaigns, and runs that answer another question than how fast: names of `import trainmark as tm`, too.

A campaign that is stopped raises `trainmark.run.campaign.CampaignStopped`; `trainmark resume` goes on with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark import api
from trainmark.api import PathLike, RunLike, Settings, SiteLike, SuiteLike
from trainmark.api_objects import EventSwitch, OnProgress, Result, Run, campaign_driver
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.run import faults, planning, session
from trainmark.run.campaign import CampaignStopped
from trainmark.spec.suite import Loaded

if TYPE_CHECKING:
    from trainmark.automl.experiment.result import Result as SearchResult
    from trainmark.campaigns.bisect import Bisected
    from trainmark.report.make.acceptance import Acceptance
    from trainmark.report.make.goodput import GoodputRun

__all__ = ["accept", "bisect", "goodput", "search"]


def accept(
    site: SiteLike = None,
    *,
    runs: PathLike | None = None,
    resume: RunLike | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    **options: Any,
) -> Result[Acceptance]:
    """Which nodes and links of a site are slower than the others, than a contract or than before. `resume`: a run of
    one that was stopped or killed. `options`: those of `trainmark accept` (`trainmark.campaigns.accept.Options`).

    >>> tm.accept("cluster.yaml", contract="promised.yaml").record.drain
    """
    from trainmark.campaigns import accept as acceptance

    known = acceptance.Options.__struct_fields__
    for name in options:
        if name not in known:
            raise UserError(f"accept: no option `{name}`{did_you_mean(name, known)}; there is {one_of(known)}")
    asked = msgspec.convert(options, acceptance.Options, dec_hook=lambda _, value: Path(value))
    if resume is None:
        file = None if not isinstance(site, (str, Path)) else Path(site)
        made = acceptance.create(api.site(site), api.runs_folder(runs), asked, file, ["trainmark.accept(…)"])
    else:
        made = acceptance.named(api.open(resume, runs).folder, "resume")
    found = acceptance.go(made, campaign_driver(on_progress), None if stop is None else EventSwitch(stop))
    if found is None:
        raise CampaignStopped(made.name)
    setting, gathered = found
    verdict, _ = acceptance.judge(acceptance.as_asked(asked, setting), gathered)
    return Result(verdict, [msgspec.structs.asdict(one) for one in verdict.nodes])


def bisect(
    suite: PathLike | Loaded,
    good: str,
    bad: str,
    site: SiteLike = None,
    *,
    repo: PathLike | None = None,
    runs: PathLike | None = None,
    set: Settings = None,
    margin: float = 0.03,
    on_note: Callable[[str], object] | None = None,
    stop: threading.Event | None = None,
) -> Bisected:
    """Which commit made a suite slower: `good` and `bad` are revisions of the repository that the suite is in.

    >>> tm.bisect("suite.yaml", "v1.4", "main").answer.commit
    """
    from trainmark.campaigns import bisect as bisection
    from trainmark.campaigns import revisions
    from trainmark.campaigns.asked import asked_suite
    from trainmark.i18n.speaker import say

    loaded = api.suite(suite)
    tree = revisions.root(loaded.file.resolve().parent if repo is None else Path(repo))
    changed = {name: str(value) for name, value in (set or {}).items()}
    asked = asked_suite(loaded, api.site(site), changed)
    made = bisection.create(asked, tree, good, bad, margin, api.runs_folder(runs), ["trainmark.bisect(…)"])
    note = on_note or (lambda _: None)
    found = bisection.go(made, lambda news: note(say(news)), switch=None if stop is None else EventSwitch(stop))
    if found is None:
        raise CampaignStopped(made.name)
    return found


def goodput(
    what: RunLike | SuiteLike,
    site: SiteLike = None,
    *,
    kill: int | None = None,
    runs: PathLike | None = None,
    set: Settings = None,
    seed: int | None = None,
    preset: str | None = None,
    on_progress: OnProgress | None = None,
) -> Result[GoodputRun]:
    """How much of a job's time is training: of a `Run` that was made, or of the cases of a suite, each run once, with
    checkpoints. `kill`: a rank that is killed once in each case, on this machine, to see how it recovers."""
    from trainmark.plan.goodput import goodput as goodput_plan
    from trainmark.report.make import goodput as reading

    if isinstance(what, Run):
        made = what
    else:
        plan = goodput_plan(api.plan(what, site, set=set, seed=seed, preset=preset), kill)
        faults.check(plan)
        folder = api.runs_folder(runs)
        planning.check(plan, folder)
        made = Run(session.create(plan, folder, ["trainmark.goodput(…)"])).resume(on_progress=on_progress)
    found = reading.of_run(made.folder, session.state_of(made.folder, made.plan))
    rows = [{"case": one.case, "effective_ratio": one.effective_ratio.value} for one in found]
    return Result(reading.GoodputRun(made.id, str(made.path), [reading.GoodputCase(one) for one in found]), rows)


def search(
    experiment: PathLike,
    site: SiteLike = None,
    *,
    runs: PathLike | None = None,
    rules: str | None = None,
    check: bool = True,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> Result[SearchResult]:
    """Runs an AutoML experiment, given by its file, to its end (`trainmark automl run`).

    >>> tm.search("demo").record.accuracy
    """
    from trainmark.automl.experiment import runs as experiments
    from trainmark.automl.experiment.document import document

    asked, _ = experiments.read(Path(experiment), rules)
    command = [f"trainmark.search({str(experiment)!r})"]
    made = experiments.create(asked, api.site(site), api.runs_folder(runs), check=check, command=command)
    Run(made).resume(on_progress=on_progress, stop=stop)
    found = experiments.look(made)
    return Result(found, [msgspec.structs.asdict(one) for one in found.trials], document(found))
