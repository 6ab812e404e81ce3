"""The library: what a notebook, the web server and the command line use. `import trainmark as tm` gives all of it.

    import trainmark as tm

    run = tm.run("mnist:pytorch:cpu:1:2:3", runs="runs", on_progress=print)
    run.state, run.path                      # JobState.SUCCEEDED, …
    run.to_frame()                           # pandas: a row for each case and measurement
    print(tm.compare(run, "last"))           # is one faster than the other?

Everything may be called from several threads at once, each with runs of its own. Nothing here touches signals or the
terminal. What a caller can cure is raised as `trainmark.errors.UserError`; `SiteError`, a kind of it, says that the
machine or cluster cannot be used as asked.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec

import trainmark
import trainmark.plan
import trainmark.report
import trainmark.run
from trainmark.api_objects import EventSwitch, Handle, OnProgress, Result, Run, campaign_driver
from trainmark.errors import UserError, did_you_mean, one_of
from trainmark.plan.records import Plan
from trainmark.run import planning, session
from trainmark.run.campaign import CampaignStopped
from trainmark.spec import suite as suites
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded
from trainmark.spec.suite_cases import wanted_batches
from trainmark.spec.yamlfile import Location
from trainmark.store import baselines, rundir, secrets
from trainmark.store.rundir import RunDir

if TYPE_CHECKING:
    from trainmark.report.make.compare import Comparison, Side
    from trainmark.report.make.history import History
    from trainmark.report.make.predict import PredictedRun
    from trainmark.report.records import Report
    from trainmark.score.records import Diagnosis

__all__ = [
    "Result",
    "Run",
    "compare",
    "diagnose",
    "export",
    "history",
    "import_run",
    "open",
    "plan",
    "predict",
    "report",
    "run",
    "runs",
    "site",
    "start",
    "suite",
]

PathLike = str | os.PathLike[str]
SuiteLike = PathLike | Mapping[str, Any] | Sequence[str] | Loaded
SiteLike = PathLike | Mapping[str, Any] | Site | None
# A run, its id, the unique start or end of it, its folder, or `last`.
RunLike = Run | PathLike
Settings = Mapping[str, Any] | None


# Suites, sites and plans.


def suite(source: SuiteLike, *, preset: str | None = None) -> Loaded:
    """A suite: a built-in name, a YAML file, a case id, a list of case ids, or what a YAML file holds as a dict.

    >>> tm.suite("quick")
    >>> tm.suite("resnet50:pytorch:cpu:1:2:3", preset="smoke")
    >>> tm.suite({"cases": ["noop:none:cpu:1:1:3"], "preset": "smoke"})
    """
    if isinstance(source, Loaded):
        return source
    if isinstance(source, Mapping):
        return suites.of_content(dict(source), Location("suite"), "suite")
    if isinstance(source, (str, os.PathLike)):
        return planning.load_suite(os.fspath(source), preset)
    return suites.named("cases", list(source), preset or "quick")


def site(source: SiteLike = None) -> Site:
    """A site: a YAML file, what it holds as a dict, a `Site`, or (None) this machine.

    >>> tm.site({"name": "pair", "launcher": "ssh", "hosts": ["node[1-2]"]})
    """
    from trainmark.launch import sites
    from trainmark.launch.protocol import REGISTRY
    from trainmark.spec.site import of_content

    if isinstance(source, Mapping):
        source = of_content(dict(source), Location("site"), REGISTRY)
    if isinstance(source, Site):
        return sites.complete(source, Location("site"))
    return sites.load_site(None if source is None else Path(source))


# `site` is also the name of a parameter.
load_site = site


def plan(
    suite: SuiteLike,
    site: SiteLike = None,
    *,
    set: Settings = None,
    seed: int | None = None,
    preset: str | None = None,
    seconds: float | None = None,
) -> Plan:
    """What `run` would do, without doing it. `set`: parameters for every case that has them; `seconds`: how long each
    round shall measure.

    >>> [case.case for case in tm.plan("quick").cases]
    """
    return _planned(_lasting(suite, preset, seconds), site, set, seed, None)


def _lasting(source: SuiteLike, preset: str | None, seconds: float | None) -> Loaded:
    loaded = suite(source, preset=preset)
    return loaded if seconds is None else suites.measured_for(loaded, seconds)


def _planned(source: SuiteLike, where: SiteLike, changed: Settings, seed: int | None, preset: str | None) -> Plan:
    made = planning.plan_suite(suite(source, preset=preset), site(where), _texts(changed), seed)
    return planning.with_kept_peaks(made, _file(where))


def _texts(changed: Settings) -> dict[str, str]:
    return {name: str(value) for name, value in (changed or {}).items()}


def _file(where: SiteLike) -> Path | None:
    return Path(where) if isinstance(where, (str, os.PathLike)) else None


# Running.


def run(
    suite: SuiteLike,
    site: SiteLike = None,
    *,
    runs: PathLike | None = None,
    set: Settings = None,
    seed: int | None = None,
    preset: str | None = None,
    seconds: float | None = None,
    check: bool = True,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> Run:
    """Runs a suite or a case to its end, and returns the run.

    `runs`: the folder that runs are kept in (default: $TRAINMARK_RUNS, else `runs`). `seconds`: how long each round
    shall measure (default: as its preset does). `check`: look at the hosts of a site before the start. `on_progress` is
    called in this thread with a `ProgressUpdate`, about twice a second. `stop`: an event by which another thread may
    ask the run to stop.

    >>> tm.run("noop:none:cpu:1:1:1", runs="/tmp/runs").state
    """
    command = f"trainmark.run({_name(suite)})"
    loaded = _lasting(suite, preset, seconds)
    made = _with_largest_batches(loaded, site, set, seed, None, runs, check, command, stop)
    if made is None:
        made = _created(_planned(loaded, site, set, seed, None), runs, check, command)
    return made.resume(on_progress=on_progress, stop=stop)


def _with_largest_batches(
    source: SuiteLike,
    where: SiteLike,
    changed: Settings,
    seed: int | None,
    preset: str | None,
    runs: PathLike | None,
    check: bool,
    command: str,
    stop: threading.Event | None,
) -> Run | None:
    """The run of a suite that asks for the largest batches, which are tried first; None for any other suite."""
    loaded = suite(source, preset=preset)
    if not wanted_batches(loaded):
        return None
    from trainmark.campaigns import fit
    from trainmark.campaigns.asked import asked_suite

    asked = asked_suite(loaded, site(where), _texts(changed), seed, _file(where))
    made = fit.create(asked, runs_folder(runs), check=check, command=[command])
    found = fit.go(made, lambda _: None, None if stop is None else EventSwitch(stop))
    if found is None:
        raise CampaignStopped(made.name)
    return Run(found)


def start(
    suite: SuiteLike,
    site: SiteLike = None,
    *,
    runs: PathLike | None = None,
    set: Settings = None,
    seed: int | None = None,
    preset: str | None = None,
    check: bool = True,
    on_progress: OnProgress | None = None,
    process: bool = False,
) -> Handle:
    """Starts a suite or a case in the background: in a thread of this process or, with `process`, in one of its own
    that outlives this one (which cannot call `on_progress`).

    >>> going = tm.start("resnet50:pytorch:cpu:1:2:1")
    >>> going.status().state
    >>> going.stop()
    """
    if process and on_progress is not None:
        raise UserError("on_progress: a process of its own cannot call it; leave out `process`, or ask for `status()`")
    made = _created(_planned(suite, site, set, seed, preset), runs, check, f"trainmark.start({_name(suite)})")
    return Handle(made, on_progress, process=process)


def _name(source: SuiteLike) -> str:
    return repr(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else "…"


def _created(plan: Plan, runs: PathLike | None, check: bool, command: str) -> Run:
    folder = runs_folder(runs)
    planning.check(plan, folder, hosts=check)
    here = None
    with contextlib.suppress(OSError):  # the working directory may be gone
        here = Path.cwd()
    return Run(session.create(plan, folder, [command], here))


def runs_folder(runs: PathLike | None) -> Path:
    """The folder that is named, or the default one."""
    return Path(runs if runs is not None else os.environ.get("TRAINMARK_RUNS", "runs")).resolve()


# Runs that were made.


def open(run: RunLike = "last", runs: PathLike | None = None) -> Run:
    """A run by its id, the unique start or end of it, its folder, a bundle that holds it, or `last`.

    >>> tm.open("last").state
    """
    return run if isinstance(run, Run) else Run(_folder(os.fspath(run), runs_folder(runs)))


def _folder(name: str, runs: Path) -> RunDir:
    """Where a run lies. That of a bundle is unpacked for as long as this process lives."""
    if not name.endswith(_BUNDLE) or not Path(name).is_file():
        return rundir.find(runs, name)
    from trainmark.trust import unpack

    return unpack.for_a_while(Path(name))


_BUNDLE = ".tmk"


def runs(folder: PathLike | None = None) -> list[Run]:
    """All runs in a folder, oldest first."""
    found = runs_folder(folder)
    return [Run(RunDir(found / name)) for name in rundir.run_ids(found)]


@overload
def report(run: RunLike = "last", format: None = None, *, runs: PathLike | None = None) -> Report: ...
@overload
def report(
    run: RunLike = "last", format: str = ..., *, language: str | None = None, runs: PathLike | None = None
) -> str: ...
def report(
    run: RunLike = "last", format: str | None = None, *, language: str | None = None, runs: PathLike | None = None
) -> Report | str:
    """The figures of a run as a record, or as `text`, `html`, `md`, `json` or `csv` in a language (`en`, `zh`)."""
    made = open(run, runs)
    return made.report() if format is None else made.report(format, language)


def compare(
    *sides: RunLike,
    runs: PathLike | None = None,
    metric: str = "throughput",
    margin: float = 0.03,
    threshold: float = 0.05,
    force: bool = False,
    live: bool = False,
    rounds: int | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    **what: Any,
) -> Result[list[Comparison]]:
    """Whether the other runs are faster than the first. A side is a run, `RUN:CASE` for one of its cases or, first of
    all, `baseline`: the one of the others' hosts. `margin`: differences up to this share do not matter.

    `live`: both are run anew, their blocks in turns, and these runs are compared. A side may then be a case or a suite,
    too; `rounds` of each case; `what`: site, site_b, set, set_b, preset, seconds, seed, as `run` has them, those with
    `_b` for B alone.

    >>> tm.compare("baseline", "last").to_frame()[["case", "ratio", "verdict"]]
    >>> tm.compare("gpt2:pytorch:cpu:1:1:5", live=True, set_b={"dtype": "bf16"})
    """
    from trainmark.report.figures import flag_codes
    from trainmark.report.make.compare import compare_many

    known_metric(metric)
    folder = runs_folder(runs)
    if live:
        sides = _run_in_turns(sides, folder, (metric, margin, threshold, force), rounds, on_progress, stop, what)
    elif what or rounds is not None:
        raise UserError(f"{', '.join(what) or 'rounds'}: only for live=True; finished runs are compared as they are")
    known = _sides(sides, folder)
    if any(side.report.experiment is not None for side in known):
        from trainmark.automl.experiment import compare as experiments

        found = experiments.compare(known, margin, threshold, folder, force=force)
    else:
        found = compare_many(known, metric, margin, threshold, force=force, runs=folder)
    rows = [
        {
            "A": comparison.a,
            "B": comparison.b,
            "case": one.name,
            "a": one.a,
            "b": one.b,
            "unit": one.unit,
            "ratio": one.verdict.ratio,
            "low": one.verdict.ci_low,
            "high": one.verdict.ci_high,
            "verdict": one.verdict.word,
            "flags_a": flag_codes(one.flags_a),
            "flags_b": flag_codes(one.flags_b),
        }
        for comparison in found
        for one in comparison.cases
    ]
    return Result(found, rows)


def known_metric(name: str) -> str:
    """The name of a metric that runs are compared by."""
    from trainmark.report.make.compare import METRICS

    if name not in METRICS:
        raise UserError(f"--metric: found `{name}`{did_you_mean(name, METRICS)}, allowed is {one_of(METRICS)}")
    return name


def _run_in_turns(
    sides: Sequence[RunLike],
    runs: Path,
    judging: tuple[str, float, float, bool],
    rounds: int | None,
    on_progress: OnProgress | None,
    stop: threading.Event | None,
    what: Mapping[str, Any],
) -> tuple[Run, Run]:
    from trainmark.campaigns import live

    made = live.create(
        live_plans(sides, runs, **what),
        runs,
        live.Judging(*judging),
        rounds=rounds,
        seed=what.get("seed"),
        command=["trainmark.compare(…)"],
    )
    found = live.go(made, campaign_driver(on_progress), None if stop is None else EventSwitch(stop))
    if found is None:
        raise CampaignStopped(made.name)
    return Run(found[0]), Run(found[1])


def live_plans(
    sides: Sequence[RunLike],
    runs: Path,
    *,
    site: SiteLike = None,
    site_b: SiteLike = None,
    set: Settings = None,
    set_b: Settings = None,
    preset: str | None = None,
    seconds: float | None = None,
    seed: int | None = None,
) -> list[Plan]:
    """Plans of A and B, to be run in turns. One name means both sides, which then differ by what is said for B."""
    from trainmark.campaigns import live

    if len(sides) == 1 and (site_b is not None or set_b):
        sides = [sides[0], sides[0]]
    if len(sides) != 2:
        raise UserError(
            f"--live takes A and B in turns, found {len(sides)} side(s); one is enough with --set-b or --site-b"
        )
    plans = []
    for name, where, changed in zip(
        sides, (site, site_b or site), (set, {**(set or {}), **(set_b or {})}), strict=True
    ):
        found = (name.folder, "") if isinstance(name, Run) else live.load(os.fspath(name), runs, preset, seconds)
        if isinstance(found, Loaded):
            plans.append(live.plan_of_suite(found, load_site(where), _file(where), _texts(changed), seed))
        elif where is not None or changed:
            raise UserError(f"{found[0].id} is run again as it was: --site and --set are for cases and suites")
        else:
            plans.append(live.plan_of_run(*found))
    return plans


_BASELINE = "baseline"


def _sides(names: Sequence[RunLike], runs: Path) -> list[Side]:
    if len(names) < 2:
        raise UserError("one run only: name another, or `trainmark compare baseline RUN` (`trainmark baseline --help`)")
    if _BASELINE in names[1:]:
        raise UserError("`baseline` stands first: the others are compared with it")
    others = [_side(name, runs) for name in names[1:]]
    first = names[0]
    if first == _BASELINE:
        found = sorted({baselines.find(runs, other.manifest).run for other in others})
        if len(found) > 1:
            raise UserError(f"these runs have different baselines ({', '.join(found)}); compare them one by one")
        first = found[0]
    sides = [_side(first, runs), *others]
    if len({side.case is None for side in sides}) > 1:
        raise UserError("A and B: either both name a case (RUN:CASE) or none does")
    named = [(side.report.dir, side.case) for side in sides]
    twice = next((side for index, side in enumerate(sides) if named[index] in named[:index]), None)
    if twice is not None:
        raise UserError(f"A and B are the same: {twice.case or twice.report.run}")
    return sides


def _side(source: RunLike, runs: Path) -> Side:
    """A run, or one case of it: `:` ends the name of the run."""
    from trainmark.report.build import headlines
    from trainmark.report.make.compare import Side

    if isinstance(source, Run):
        return Side(headlines(source.folder), source.folder.manifest(), None)
    name = os.fspath(source)
    run_name, colon, case = name.partition(":")
    if colon and (Path(name) / rundir.MANIFEST).is_file():
        run_name, case = name, ""
    run = _folder(run_name, runs)
    manifest = run.manifest()
    identity = planning.case_named(run, manifest.plan, case) if case else None
    return Side(headlines(run), manifest, identity)


def history(case: str, *, runs: PathLike | None = None) -> Result[list[History]]:
    """A case over all runs of a folder, and where its speed changed. `case`: an id, or how it begins."""
    from trainmark.report.make import history

    found = history.collect(runs_folder(runs), case)
    rows = [
        {"case": line.case, "hosts": ", ".join(line.hosts), "unit": line.unit, **msgspec.structs.asdict(entry)}
        for line in found
        for entry in line.entries
    ]
    return Result(found, rows)


def diagnose(
    what: RunLike | SuiteLike,
    site: SiteLike = None,
    *,
    runs: PathLike | None = None,
    rounds: int = 5,
    skip: int = 5,
    steps: int = 20,
    set: Settings = None,
    seed: int | None = None,
    preset: str | None = None,
    on_progress: OnProgress | None = None,
) -> Result[list[Diagnosis]]:
    """Why a step takes as long as it does: runs a suite's cases, or those of a run again, with and without a profiler.
    A diagnostic run that was made is only read."""
    from trainmark.plan import diagnose as plans
    from trainmark.report.make import diagnosis

    source = what.folder.manifest().plan if isinstance(what, Run) else _planned(what, site, set, seed, preset)
    if isinstance(what, Run) and source.kind == "diagnosis":
        made = what
    else:
        seed = seed if seed is not None else planning.random_seed()
        source = secrets.whole(what.folder, source) if isinstance(what, Run) else source
        diagnostic = plans.diagnostic(plans.distinct(source), rounds, skip, steps, seed)
        made = _created(diagnostic, runs, True, "trainmark.diagnose(…)").resume(on_progress=on_progress)
    found = diagnosis.of_run(made.folder, session.state_of(made.folder, made.plan))
    if not found:
        raise UserError(f"{made.id}: no diagnostic rounds")
    rows = [{"case": one.case, "step_seconds": one.traced_step.value} for one in found]
    return Result(found, rows)


def predict(
    run: RunLike = "last",
    nodes: int | Sequence[int] = (2,),
    *,
    all_reduce: float | None = None,
    site: PathLike | None = None,
    runs: PathLike | None = None,
) -> Result[PredictedRun]:
    """How fast more nodes would be, from what a run measured on fewer. `all_reduce`: seconds that the gradients take
    between two nodes; `site`: take the peaks kept with this site's file."""
    from trainmark.report.make.predict import peaks_of_site, predict_run

    known = None if site is None else peaks_of_site(Path(site))
    sizes = [nodes] if isinstance(nodes, int) else list(nodes)
    found = predict_run(open(run, runs).folder, sizes, all_reduce=all_reduce, peaks=known)
    rows = [
        {"series": one.series, "unit": one.unit, **msgspec.structs.asdict(prediction)}
        for one in found.series
        for prediction in one.predictions
    ]
    return Result(found, rows)


# Other tools' files.


def import_run(format: str, path: PathLike, *, runs: PathLike | None = None, **options: Any) -> Run:
    """Results of another tool as a run (`trainmark list formats`). The same source imported twice is one run.

    >>> tm.import_run("flagperf", "logs/", runs="runs")
    """
    if format == "bundle":
        from trainmark.trust import unpack

        return Run(unpack.unpack(Path(path), runs_folder(runs))[0])
    from trainmark.interop.protocol import REGISTRY
    from trainmark.interop.reading.importing import import_results

    form = REGISTRY.get(format, "import")
    brought = import_results(format, Path(path), runs_folder(runs), _options(options, form.import_options, format))
    return Run(RunDir(Path(brought.dir).resolve()))


def export(
    run: RunLike | Sequence[RunLike], format: str, path: PathLike, *, runs: PathLike | None = None, **options: Any
) -> list[Path]:
    """Writes one or several runs in another tool's format, and returns the files."""
    from trainmark.interop.protocol import REGISTRY

    form = REGISTRY.get(format, "export")
    several = [run] if isinstance(run, (Run, str, os.PathLike)) else run
    folders = [open(one, runs).folder for one in several]
    return list(form.write(folders, Path(path), _options(options, form.export_options, format)))


def _options(given: Mapping[str, Any], known: Any, format: str) -> dict[str, Any]:
    if known is None:
        raise UserError(f"{format}: this format cannot do that; `trainmark list formats` shows what each can")
    names = [option.name for option in known]
    for name in given:
        if name not in names:
            raise UserError(f"{format}: no option `{name}`{did_you_mean(name, names)}; there is {one_of(names)}")
    return {option.name: given.get(option.name, option.default) for option in known}


# Three functions have the names of packages. These were imported above, so the functions take their places in
# `trainmark` for good; `from trainmark.run import …` finds the package all the same.
for _public in __all__:
    setattr(trainmark, _public, globals()[_public])
