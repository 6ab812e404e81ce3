"""What several verbs share: the same option means the same thing everywhere."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec

import trainmark
from trainmark.errors import SiteError, UserError, did_you_mean, one_of
from trainmark.launch.protocol import launcher_of
from trainmark.plan.build import Places, build, with_peaks
from trainmark.plan.records import Plan
from trainmark.spec import site as sites
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import SYNTHETIC, Case
from trainmark.store import rundir
from trainmark.store.rundir import RunDir

PRESETS = ("smoke", "quick", "full")
_DEFAULT_PRESET = "quick"
# These use the Python of trainmark itself, or the site's.
_SHARES_A_PYTHON = ("pytorch", "none")


def add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=Path,
        default=Path(os.environ.get("TRAINMARK_RUNS", "runs")),
        metavar="DIR",
        help="the folder runs are kept in (default: $TRAINMARK_RUNS or ./runs)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        nargs="?",
        metavar="RUN",
        help="run id, its unique start or end, or its folder (default: the newest)",
    )
    add_runs(parser)


SUITE = "a built-in suite (`trainmark list suites`), a YAML file, or one case id"


def add_suite(parser: argparse.ArgumentParser, what: str = SUITE) -> None:
    """Everything that decides what would be run."""
    parser.add_argument("suite", metavar="SUITE", help=what)
    parser.add_argument("--site", type=Path, metavar="FILE", help="site YAML (default: this machine)")
    parser.add_argument(
        "--preset", metavar="NAME", help=f"size of a case given by id: {', '.join(PRESETS)} (default: quick)"
    )
    add_set(parser)
    add_seed(parser)


def add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="order of rounds and seeds of training (default: random, recorded)",
    )


def add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="set a parameter of every case that has it",
    )


def overrides(args: argparse.Namespace) -> dict[str, str]:
    return pairs(args.set, "--set")


def pairs(texts: list[str], option: str) -> dict[str, str]:
    """KEY=VALUE words as a mapping."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"{option} {text}: expected KEY=VALUE")
        found[key] = value
    return found


def load_suite(args: argparse.Namespace) -> suites.Loaded:
    if ":" in args.suite and not args.suite.endswith((".yaml", ".yml")):
        return suites.single(args.suite, _DEFAULT_PRESET if args.preset is None else args.preset)
    if args.preset is not None:
        raise UserError("--preset is for a case given by id; a suite names its own preset")
    return suites.load(suites.find(args.suite))


def load_site(args: argparse.Namespace) -> sites.Site:
    from trainmark.launch.sites import load_site as load

    return load(args.site)


def make_plan(args: argparse.Namespace, loaded: suites.Loaded | None = None, site: sites.Site | None = None) -> Plan:
    """Suite, site and options → plan. Reads files, starts nothing."""
    return with_kept_peaks(
        plan_suite(loaded or load_suite(args), site or load_site(args), overrides(args), args.seed), args
    )


def with_kept_peaks(plan: Plan, args: argparse.Namespace) -> Plan:
    """The plan, knowing what was kept with its site, if anything was."""
    known = sites.peaks_file(args.site, os.uname().nodename)
    if not known.is_file():
        return plan
    from trainmark.spec import peaks

    return with_peaks(plan, peaks.load(known))


def check_runs(plan: Plan, args: argparse.Namespace) -> None:
    """Whether the site's nodes will see the folder for runs, where they must."""
    launcher_of(plan.site).check_runs(plan.site, args.runs)


def plan_suite(loaded: suites.Loaded, site: sites.Site, changed: dict[str, str], seed: int | None) -> Plan:
    return plan_cases(loaded, suite_cases.expand(loaded, site, changed), site, seed)


def plan_cases(loaded: suites.Loaded, cases: list[Case], site: sites.Site, seed: int | None) -> Plan:
    seed = seed if seed is not None else loaded.suite.seed
    if seed is None:
        seed = random_seed()
    suite, here = loaded.suite, places(site, {case.data for case in cases if case.data})
    here = msgspec.structs.replace(here, pythons=_pythons(site, cases))
    return build(suite.name, suite.division, suite.retries, cases, site, here, seed)


def random_seed() -> int:
    return int.from_bytes(os.urandom(4), "big") >> 1


def places(site: sites.Site, data: set[str]) -> Places:
    """Where things lie on this machine; `data` is what the cases call their data."""
    probe = Path(trainmark.__file__).resolve().parent / "probe"
    launcher = launcher_of(site)
    if not launcher.this_machine:
        # Their own Python, found by their own PATH: nothing of it can be looked at from here.
        return Places(
            python=site.python or "python3",
            probe=str(probe),
            data=_data_places(data - {SYNTHETIC}),
            rank_starter=launcher.rank_starter,
            rank_options=launcher.rank_options(site),
        )
    python = site.python or sys.executable
    if "/" not in python:
        import shutil

        python = shutil.which(python) or python
    if not os.access(os.path.expanduser(python), os.X_OK):
        raise SiteError(f"site `{site.name}`: python: no program at {python}; name one that can train")
    return Places(
        python=os.path.expanduser(python), probe=str(probe), data=_data_places(data - {SYNTHETIC}), here=os.getcwd()
    )


def _pythons(site: sites.Site, cases: list[Case]) -> dict[str, str]:
    """Of each framework that does not share a Python with others: the site's, or that of its environment."""
    found = dict(site.pythons)
    if not launcher_of(site).this_machine:
        return found  # nothing there can be looked at from here
    plain = [case for case in cases if case.id.framework in _SHARES_A_PYTHON or case.found.workload.command]
    for case in cases if len(plain) < len(cases) else ():
        from trainmark import environments

        name = case.id.framework
        if case not in plain and name in environments.catalogue():
            own = site.pythons.get(name) or site.python
            found[name] = environments.choose(name, case.id.version, own, f"case `{case.id}`")
    return found


def _data_places(names: set[str]) -> dict[str, str]:
    """Folders of data sets that have a name; what is not here yet is told when a case needs it."""
    if not names:
        return {}
    from trainmark import data

    return {
        item.name: str(data.locate(item.name) or data.home(item)) for item in data.catalogue() if item.name in names
    }


def resume_line(run: RunDir, plan: Plan) -> str:
    """The command that goes on with a run."""
    return f"trainmark {'automl ' if plan.kind == 'automl' else ''}resume {run.id}"


def find_run(args: argparse.Namespace) -> RunDir:
    return rundir.find(args.runs, args.run)


def named_run(args: argparse.Namespace) -> tuple[RunDir, str] | None:
    """The run that `suite` names, if it can be the name of nothing else, and after a colon one of its cases."""
    name = args.suite
    if name.endswith((".yaml", ".yml")) or name.count(":") == 5 or name in suites.built_in_names():
        return None
    run, _, case = name.partition(":")
    found = rundir.find(args.runs, run)
    known = [planned.case for planned in found.manifest().plan.cases]
    if case and not any(one.startswith(case) for one in known):
        raise UserError(
            f"{name}: no case begins with `{case}`{did_you_mean(case, known)}; {found.id} has {one_of(known)}"
        )
    return found, case
