"""What ran: the packed programs against those that ran and those that this trainmark ships; suites and packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from trainmark.errors import UserError
from trainmark.plan.build import program_version
from trainmark.plan.records import CasePlan
from trainmark.reasons import listed, reason
from trainmark.spec import workload as workloads
from trainmark.store.files import read_json
from trainmark.store.rundir import Manifest
from trainmark.trust import citation
from trainmark.trust.records import PACKAGES, SOURCES, Finding, fault, remark


def of_case(case: CasePlan, folder: Path) -> Iterator[Finding]:
    """The packed program is the one that ran. If it is not the one that this trainmark ships, that is said."""
    packed = folder / SOURCES / case.workload
    shipped = _shipped(case.workload)
    if not case.version:
        # The user's own command, or a run that hides what it ran.
        if shipped is not None or not case.open:
            yield remark(reason("program-not-known", workload=case.workload))
        return
    if not packed.is_dir():
        yield remark(reason("sources-missing", workload=case.workload))
    elif _packed_version(packed) != case.version:
        yield fault(reason("sources-of-another-version", workload=case.workload))
        return
    if shipped is None:
        yield remark(reason("workload-not-shipped", workload=case.workload))
    elif program_version(shipped.folder, tuple(shipped.workload.path)) != case.version:
        files = _differing(packed, shipped) if packed.is_dir() else []
        yield remark(reason("workload-differs", workload=case.workload, files=listed(files)))


def locked(case: CasePlan) -> Iterator[Finding]:
    """Parameters that are locked have the values of the shipped workload, unless the division is open."""
    if case.division != "closed":
        yield remark(reason("case-in-open-division", case=case.case, opened=listed(list(case.opened))))
        return
    shipped = _shipped(case.workload)
    if shipped is None:
        return
    workload = shipped.workload
    preset, device = workload.presets.get(case.preset, {}), workload.devices.get(case.vendor, {})
    for name, parameter in workload.parameters.items():
        of_preset = preset.get(name, parameter.default)
        expected = (of_preset, device.get(name, of_preset))
        if parameter.locked and name in case.params and case.params[name] not in expected:
            yield fault(reason("locked-parameter", name=name, value=str(case.params[name])), case.case)


def _packed_version(folder: Path) -> str:
    places = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: int(one.name))
    return program_version(places[0], tuple(str(one) for one in places[1:])) if places else ""


def _differing(packed: Path, shipped: workloads.Found) -> list[str]:
    """Names of the files that differ from the shipped ones."""
    places = (shipped.folder, *((shipped.folder / extra).resolve() for extra in shipped.workload.path))
    found = []
    for number, place in enumerate(places):
        mine = {one.name: one.read_bytes() for one in (packed / str(number)).glob("*") if one.is_file()}
        theirs = {
            one.name: one.read_bytes()
            for one in place.glob("*")
            if one.is_file() and one.suffix in (".py", ".yaml", ".yml", ".json")
        }
        found += [name for name in sorted({*mine, *theirs}) if mine.get(name) != theirs.get(name)]
    return found


def around(manifests: Sequence[Manifest], folder: Path) -> Iterator[Finding]:
    """The suites and the packages are those that the runs' manifests tell of."""
    for manifest in manifests:
        suite = folder / SOURCES / "suite" / f"{manifest.plan.suite}.yaml"
        texts = {one.plan.suite_text for one in manifests if one.plan.suite == manifest.plan.suite}
        if manifest.plan.suite_text and (not suite.is_file() or suite.read_text(errors="replace") not in texts):
            yield fault(reason("suite-differs", suite=manifest.plan.suite))
    found = read_json(folder / PACKAGES)
    try:
        listed_here = {(one["name"], one["version"]) for one in found["components"]}
    except (LookupError, TypeError):
        yield fault(reason("packages-missing"), PACKAGES)
        return
    if listed_here != set(citation.installed(manifests)):
        yield fault(reason("packages-differ"), PACKAGES)


def _shipped(name: str) -> workloads.Found | None:
    try:
        return workloads.find(name, (), "verify")
    except UserError:
        return None
