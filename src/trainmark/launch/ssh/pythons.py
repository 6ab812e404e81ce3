"""The Pythons that ranks on other hosts would run in: what they are asked, and what is made of their answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from trainmark import extras
from trainmark.environments import Environment, catalogue
from trainmark.errors import one_of
from trainmark.launch import agent_command
from trainmark.launch.protocol import Finding
from trainmark.launch.ssh import images
from trainmark.launch.ssh import plan as ssh_plan
from trainmark.plan.records import Plan
from trainmark.spec.site import Site

# The probe's, which is inside every rank.
_LEAST = (3, 7)

# Each Python of the site, and the frameworks that must be in it.
FrameworksByPython = dict[str, set[str]]


def wanted(site: Site, plan: Plan | None) -> FrameworksByPython:
    """Those that the plan's ranks need; without a plan all that the site names."""
    usual = site.python or "python3"
    found: FrameworksByPython = {} if plan else {usual: set()}
    for framework, python in () if plan else site.pythons.items():
        found.setdefault(python, set()).add(framework)
    for case in plan.cases if plan else ():
        framework = case.id.framework
        needs = found.setdefault(site.pythons.get(framework, usual), set())
        if not case.open:  # a command brings a Python of its own, if any
            needs.add(framework)
    return found


@cache
def _environment(framework: str) -> Environment | None:
    return catalogue().get(framework)


def _module(framework: str) -> str | None:
    """What its programs import; None where that is not known."""
    if framework == "pytorch":
        return "torch"
    known = _environment(framework)
    return known.module if known else None


def questions(site: Site, plan: Plan | None, pythons: FrameworksByPython) -> dict[str, Any]:
    """What each is asked, by its name."""
    table = plan.rank_table if plan else site.rank_table_file
    common = {
        "programs": sorted({case.starter for case in plan.cases if case.starter}) if plan else [],
        "search": site.env.get("PATH"),
        "path": [entry for entry in site.env.get("PYTHONPATH", "").split(os.pathsep) if entry],
        "files": [table] if table else [],
    }
    asked = {}
    for python, frameworks in pythons.items():
        modules = sorted(
            {module for framework in frameworks if (module := _module(framework))} | _own(site, plan, python)
        )
        deep = plan is None and python == (site.python or "python3")
        asked[python] = {"argv": _argv(site, python), "question": {**common, "modules": modules, "deep": deep}}
    return asked


def _own(site: Site, plan: Plan | None, python: str) -> set[str]:
    """What the programs of the plan import in this Python beside their framework."""
    cases = [case for case in plan.cases if not case.open] if plan else []
    return {
        module
        for case in cases
        if site.pythons.get(case.id.framework, site.python or "python3") == python
        for module in case.modules
    }


def _argv(site: Site, python: str) -> list[str]:
    if not site.container:
        return agent_command.with_modules(site.modules, [python])
    blank = {"token": os.urandom(8).hex(), "node": 0, "run": "check", "config": {}}
    image = images.image_name(site.container)
    return agent_command.in_container(site.container, blank, [python], ssh_plan.WORK, image).argv


def judge(
    host: str, answers: dict[str, dict[str, Any]], site: Site, pythons: FrameworksByPython, *, deep: bool
) -> Iterator[Finding]:
    """One host's answers as findings."""
    for python, frameworks in pythons.items():
        found = answers[python]
        if "python" not in found:
            yield Finding(host, "python", False, found.get("error", "no answer"), _cure(found, site))
            continue
        yield from _version(host, python, found["python"], needed=bool(frameworks) or deep)
        yield from _frameworks(host, python, found, frameworks, site)
        if "torch" in found:
            yield Finding(host, "pytorch", True, found["torch"])
        elif "torch_error" in found:
            yield Finding(host, "pytorch", None, found["torch_error"], "only cases that need it will fail")
    known = next((found for found in answers.values() if "python" in found), {})
    yield from _programs(host, known.get("missing", ()), site)
    yield from _files(host, known.get("closed", ()), site)


def _cure(found: dict[str, Any], site: Site) -> str:
    if site.container:
        return "the container must start and hold this Python: see `container` in the site"
    if site.modules and "module" in found.get("error", ""):
        return "change `modules` in the site"
    return "set `python`, `venv` or `pythons` in the site"


def _version(host: str, python: str, version: str, *, needed: bool) -> Iterator[Finding]:
    old = needed and tuple(int(part) for part in version.split(".")[:2]) < _LEAST
    cure = f"ranks need Python {_LEAST[0]}.{_LEAST[1]} or newer: name one in the site" if old else ""
    yield Finding(host, "python", not old, f"{version} at {python}", cure)


def _frameworks(host: str, python: str, found: dict[str, Any], frameworks: set[str], site: Site) -> Iterator[Finding]:
    # What `prepare` installs is not there yet.
    good = None if site.prepare else False
    known = {_module(framework) for framework in frameworks}
    for module in found["without"]:
        if module not in known:
            cure = f"install it there: `{extras.command(module)}`"
            yield Finding(host, module, good, f"not in {python}", cure)
    for framework in sorted(frameworks):
        if _module(framework) not in found["without"]:
            continue
        yield Finding(host, framework, good, f"not in {python}", _install(framework, found["python"]))


def _install(framework: str, version: str) -> str:
    known = _environment(framework)
    if known and version.rpartition(".")[0] not in known.python:
        return (
            f"this is Python {version}, and {framework} {known.version} has packages for {one_of(known.python)}: "
            f"name a Python that has it in the site: `pythons: {{{framework}: /path/to/python}}`"
        )
    return f"install it there, or name a Python that has it in the site: `pythons: {{{framework}: /path/to/python}}`"


def _programs(host: str, missing: list[str], site: Site) -> Iterator[Finding]:
    for program in missing:
        if site.container:
            where, cure = "in the container", "take an image with it (mpirun: Debian's openmpi-bin), or name its PATH"
        else:
            where, cure = "on PATH", "install it (mpirun: Debian's openmpi-bin), or name `modules:` or PATH in the site"
        yield Finding(host, program, False, f"not {where}", cure)


def _files(host: str, closed: list[str], site: Site) -> Iterator[Finding]:
    for path in closed:
        where = " in the container" if site.container else ""
        cure = "make it with `trainmark ranktable` and put it there"
        cure += ", and name it in `mounts`" if site.container else ", or change `rank_table` in the site"
        yield Finding(host, "rank table", False, f"{path}: no file that can be read{where}", cure)
