"""From a suite and a site to a plan, with everything of this machine that a plan depends on: Pythons, data sets, peaks
that were measured. And what is checked before a plan is carried out. Reads files, starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

import trainmark
from trainmark.errors import SiteError, UserError, did_you_mean, one_of
from trainmark.launch.protocol import launcher_of
from trainmark.launch.sites import for_suite
from trainmark.plan.build import Places, build, with_peaks
from trainmark.plan.records import Plan
from trainmark.spec import site as sites
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec.case import SYNTHETIC, Case
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded
from trainmark.store import rundir
from trainmark.store.rundir import RunDir

PRESETS = ("smoke", "quick", "full")
_DEFAULT_PRESET = "quick"
# These use the Python of trainmark itself, or the site's.
_SHARES_A_PYTHON = ("pytorch", "none")


def load_suite(name: str, preset: str | None = None) -> Loaded:
    """A case id, the name of a built-in suite, or the path of a YAML file."""
    if ":" in name and not name.endswith((".yaml", ".yml")):
        return suites.single(name, _DEFAULT_PRESET if preset is None else preset)
    if preset is not None:
        raise UserError("--preset is for a case given by id; a suite names its own preset")
    return suites.load(suites.find(name))


def plan_suite(
    loaded: Loaded, site: Site, changed: Mapping[str, str], seed: int | None, *, allow_skip: bool = False
) -> Plan:
    """`changed`: parameters that stand above what the suite says. `allow_skip`: cases that the site is too small for
    are planned to be skipped."""
    site = for_suite(loaded, site)
    return plan_cases(loaded, suite_cases.expand(loaded, site, changed), site, seed, allow_skip=allow_skip)


def plan_cases(loaded: Loaded, cases: list[Case], site: Site, seed: int | None, *, allow_skip: bool = False) -> Plan:
    """The same for cases that were made of the suite in another way."""
    seed = seed if seed is not None else loaded.suite.seed
    if seed is None:
        seed = random_seed()
    suite, here = loaded.suite, places(site, {case.data for case in cases if case.data})
    here = msgspec.structs.replace(here, pythons=_pythons(site, cases))
    made = build(suite.name, suite.division, suite.retries, cases, site, here, seed, allow_skip=allow_skip)
    return msgspec.structs.replace(made, within=suite.within, suite_text=_text(loaded))


def _text(loaded: Loaded) -> str:
    """What was read; empty for a suite that was not written in a file."""
    try:
        return loaded.file.read_text() if loaded.file.suffix in (".yaml", ".yml") else ""
    except (OSError, ValueError):
        return ""


def with_kept_peaks(plan: Plan, site_file: Path | None) -> Plan:
    """The plan, knowing what was measured and kept with its site, if anything was."""
    known = sites.peaks_file(site_file, os.uname().nodename)
    if not known.is_file():
        return plan
    from trainmark.spec import peaks

    return with_peaks(plan, peaks.load(known))


def named_run(runs: Path, name: str) -> tuple[RunDir, str] | None:
    """The run that a name means, if it can mean nothing else, and after a colon how one of its cases begins. It is
    named to be run again: the newest is the newest of one's own."""
    if name.endswith((".yaml", ".yml")) or name.count(":") == 5 or name in suites.built_in_names():
        return None
    run, _, case = name.partition(":")
    found = rundir.find(runs, run, own=True)
    known = [planned.case for planned in found.manifest().plan.cases]
    if case and not any(one.startswith(case) for one in known):
        raise UserError(no_case(found, known, case))
    return found, case


def no_case(run: RunDir, known: Iterable[str], case: str, *, several: bool = False) -> str:
    which = "several cases begin" if several else "no case begins"
    names = list(known)
    return f"{run.id}:{case}: {which} with `{case}`{did_you_mean(case, names)}; {run.id} has {one_of(names)}"


def case_named(run: RunDir, plan: Plan, case: str) -> str:
    """The identity of the one case of a run whose id begins so."""
    known = {one.case: one.id.identity for one in plan.cases}
    found = [known[case]] if case in known else [known[one] for one in known if one.startswith(case)]
    if len(found) != 1:
        raise UserError(no_case(run, known, case, several=bool(found)))
    return found[0]


def random_seed() -> int:
    return int.from_bytes(os.urandom(4), "big") >> 1


def places(site: Site, data: set[str]) -> Places:
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


def _pythons(site: Site, cases: list[Case]) -> dict[str, str]:
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
    """Folders of data sets that have a name; what is not here yet is reported when a case needs it."""
    if not names:
        return {}
    from trainmark import data

    return {
        item.name: str(data.locate(item.name) or data.home(item)) for item in data.catalogue() if item.name in names
    }


def check(plan: Plan, runs: Path, *, hosts: bool = True) -> None:
    """What would make a run useless, before anything is started or written: SiteError says what and how to cure it.
    `hosts`: also look at the hosts of a site elsewhere."""
    launcher = launcher_of(plan.site)
    launcher.check_runs(plan.site, runs)
    if hosts or launcher.this_machine:
        wanted = tuple(case for case in plan.cases if case.skipped is None)
        launcher.check_plan(msgspec.structs.replace(plan, cases=wanted))
