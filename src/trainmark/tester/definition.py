"""What a test is: a file of the tester, which subjects get without the names of its subjects, and cannot change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from trainmark import data
from trainmark.errors import UserError, one_of
from trainmark.plan.build import Places, build
from trainmark.plan.records import Plan
from trainmark.spec import suite as suites
from trainmark.spec import suite_cases
from trainmark.spec import workload as workloads
from trainmark.spec.auto import ANY
from trainmark.spec.case import DATA_KEY
from trainmark.spec.case_id import AUTO, CaseId
from trainmark.spec.site import Site
from trainmark.spec.suite import Loaded
from trainmark.spec.yamlfile import Location, convert, read

# What everybody may ask for and nobody may choose here: the tester's machine does not know the subject's.
_UNNAMED = (AUTO, ANY)
_OPTIONS = {"grid": "--grid", "seed": "--seed", "seconds": "--seconds", "preset": "--preset"}
_Name = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`hours`: from taking the test until its result is there. `runs`: how often a subject may take it."""

    hours: Annotated[float, Meta(gt=0, le=8760)] = 24
    runs: Annotated[int, Meta(ge=1, le=10_000)] = 1
    bundle_mb: Annotated[int, Meta(ge=1, le=65_536)] = 1024
    heartbeat_seconds: Annotated[float, Meta(ge=1, le=3600)] = 30


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a subject is told. Everything in `suite` is locked but the parameters that `free` lists."""

    test: _Name
    model: str
    suite: dict[str, Any]
    schema: Literal[1] = 1
    mode: Literal["training"] = "training"
    division: Literal["closed", "open"] = "closed"
    scenario: _Name = "generic"
    # The object under test: one server, or several that work together.
    object: Literal["single", "cluster"] = "single"
    free: tuple[str, ...] = ()
    limits: Limits = Limits()

    def loaded(self) -> Loaded:
        """The suite as `trainmark run` would read it."""
        return suites.of_content(
            {**self.suite, "division": self.division}, Location(f"test {self.test}").at("suite"), self.test
        )


class _File(Definition, frozen=True, forbid_unknown_fields=True):
    """The tester's file. `subjects`: names of keys that may take the test; none named: all that are trusted."""

    subjects: tuple[str, ...] = ()


class Held(msgspec.Struct, frozen=True):
    """A definition and who may take it."""

    definition: Definition
    subjects: tuple[str, ...]


def load(file: Path) -> Held:
    """UserError names the line of whatever cannot be a test."""
    source = read(file)
    found = convert(source.content, _File, source.where)
    fields = {name: getattr(found, name) for name in Definition.__struct_fields__}
    definition = Definition(**fields)
    check(definition, source.where)
    return Held(definition, found.subjects)


def check(definition: Definition, where: Location) -> None:
    """Also done by the subject: its tester may be of another version."""
    given = definition.suite.get("division", definition.division)
    if given != definition.division:
        raise UserError(f"{where.at('suite', 'division')}: found `{given}`, the test says another; leave one out")
    if definition.suite.get("workloads"):
        raise UserError(f"{where.at('suite', 'workloads')}: a test travels without folders; use workloads of trainmark")
    if definition.suite.get("scaling"):
        raise UserError(f"{where.at('suite', 'scaling')}: a test lists its cases one by one")
    loaded = definition.loaded()
    for case in _ids(loaded, where):
        place = f"{where.at('suite', 'cases')}: `{case}`"
        if case.device in _UNNAMED or not case.nproc:
            raise UserError(f"{place}: a test names the device and the number of processes")
        if case.workload != definition.model:
            raise UserError(f"{place}: the test's model is `{definition.model}`")
        if (case.nnodes > 1) != (definition.object == "cluster"):
            raise UserError(f"{place}: the test's object is `{definition.object}`, the case has {case.nnodes} node(s)")
    known = workloads.find(definition.model, (), str(where.at("model"))).workload.parameters
    for name in definition.free:
        if name not in known and name != DATA_KEY:
            raise UserError(
                f"{where.at('free')}: `{definition.model}` has no parameter `{name}`; there is {one_of(known)}"
            )
        if definition.division == "closed" and name in known and known[name].locked:
            raise UserError(f"{where.at('free')}: `{name}` is locked in the closed division; say `division: open`")


def _ids(loaded: Loaded, where: Location) -> list[CaseId]:
    """Of all cases, before a site is known."""
    for at, item in enumerate(loaded.suite.cases if isinstance(loaded.suite.cases, list) else ()):
        if isinstance(item, dict) and "command" in item:
            raise UserError(f"{where.at('suite', 'cases', at)}: a test has no commands; use workloads of trainmark")
        if isinstance(item, dict) and "scaling" in item:
            raise UserError(f"{where.at('suite', 'cases', at)}: a test lists its cases one by one")
    return [case for _, case, _, _ in suite_cases.entries(loaded)]


def check_changes(definition: Definition, changed: dict[str, str], options: dict[str, Any]) -> None:
    """UserError for whatever the subject wants to be otherwise and may not."""
    locked = [name for name in changed if name not in definition.free]
    free = f"free are {one_of(definition.free)}" if definition.free else "nothing in it is free"
    if locked:
        raise UserError(f"--set {locked[0]}: test `{definition.test}` locks it; {free}")
    given = [option for name, option in _OPTIONS.items() if options.get(name) is not None]
    if given:
        raise UserError(f"{given[0]}: test `{definition.test}` locks it; {free}")


def expected(definition: Definition, site: Site, changed: dict[str, str], seed: int) -> Plan:
    """The plan of the test for that site. It does not know the folders of the subject's machine: a data set that has a
    name lies at an empty path, and paths that are not absolute stay so."""
    loaded = definition.loaded()
    suite, cases = loaded.suite, suite_cases.expand(loaded, site, changed)
    anywhere = Places(python="python3", probe="", data=dict.fromkeys((item.name for item in data.catalogue()), ""))
    plan = build(suite.name, suite.division, suite.retries, cases, site, anywhere, seed, allow_skip=True)
    return msgspec.structs.replace(plan, within=suite.within)
