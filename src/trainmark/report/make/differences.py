"""What differs between two sides of a comparison beside their speed: model, workload, settings, site and nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trainmark.plan.records import CasePlan
from trainmark.reasons import Reason, reason
from trainmark.report.records import CaseReport
from trainmark.store.rundir import Manifest


class Sided(Protocol):
    """A case of one side, with its plan."""

    @property
    def report(self) -> CaseReport: ...

    @property
    def plan(self) -> CasePlan: ...


def other_model(a: Sided, b: Sided) -> Reason | None:
    """Why the two train different models or sizes of one, so that no word of speed holds; None when they do not."""
    one, other = a.report.trained, b.report.trained
    names = [a.plan.workload, b.plan.workload]
    # Of a user's own program nothing is known but its name.
    if one is not None and other is not None and one.model and other.model:
        if names[0] != names[1]:
            return reason("other-model", before=names[0], after=names[1])
        if one.model != other.model:
            return reason("other-model", before=_sizes(one.model), after=_sizes(other.model))
    if names[0] == names[1] and a.report.preset != b.report.preset:
        return reason("other-preset", before=a.report.preset, after=b.report.preset)
    return None


def _sizes(model: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in model.items()) or "–"


def other_workload(a: Sided, b: Sided) -> Reason | None:
    """Why two cases of one name are not the same work; None when they are."""
    versions = [seen.plan.version for seen in (a, b)]
    if all(versions):
        differ = versions[0] != versions[1]
    else:
        # One was made before versions were written down: what is left are fingerprints without a reason to differ.
        differ = a.report.fingerprint != b.report.fingerprint and not changes(
            _configuration(a.plan), _configuration(b.plan)
        )
    return reason("other-workload", before=versions[0] or "–", after=versions[1] or "–") if differ else None


def fingerprints(a: Sided, b: Sided) -> list[Reason]:
    if a.report.fingerprint == b.report.fingerprint:
        return []
    found = changes(_configuration(a.plan), _configuration(b.plan)) or [reason("workload-changed")]
    return [reason("fingerprints-differ", a=a.report.fingerprint, b=b.report.fingerprint, changes=found)]


def blocks_apart(a: Sequence[tuple[str, ...]], b: Sequence[tuple[str, ...]]) -> list[Reason]:
    """That A and B had other nodes in blocks that are compared one by one; the nodes of each round of both."""
    apart = sum(one != other for one, other in zip(a, b, strict=True)) if a and b else 0
    # Never the same is said of all comparisons.
    return [reason("blocks-on-other-nodes", blocks=apart, of=len(a))] if apart and set(a) & set(b) else []


def _configuration(plan: CasePlan) -> dict[str, Any]:
    case = plan.id
    fields = ("workload", "framework", "device", "vendor", "preset", "division", "data", "checkpoint")
    named = {name: getattr(plan, name) for name in fields}
    return {**named, "nodes": case.nnodes, "processes": case.nproc, **plan.params}


def machine(manifest: Manifest) -> dict[str, Any]:
    """What a reader would ask first when figures differ."""
    facts = manifest.provenance.get("facts") or {}
    processor = facts.get("cpu") or {}
    packages = manifest.provenance.get("packages") or {}
    hosts = sorted({node.host for case in manifest.plan.cases for node in case.nodes if node.host})
    return {
        "site": manifest.plan.site.name,
        "launcher": manifest.plan.site.launcher,
        "hosts": ", ".join(hosts),
        "processor": processor.get("model"),
        "threads": processor.get("threads"),
        "kernel": facts.get("kernel"),
        "torch": packages.get("torch"),
        "trainmark": manifest.trainmark,
    }


def surroundings(manifest: Manifest, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What may change between two runs of one case on the same hosts: code, drivers, packages. `facts`: what one of its
    nodes says of itself."""
    said = manifest.provenance
    git, here = said.get("git") or {}, said.get("facts") or {}
    devices = facts.get("accelerators") or {}
    return {
        "commit": git.get("commit"),
        "changed files": git.get("dirty"),
        "trainmark": manifest.trainmark,
        "kernel": facts.get("kernel", here.get("kernel")),
        "driver": devices.get("driver"),
        "Python": said.get("python"),
        **(said.get("packages") or {}),
    }


def changes(a: dict[str, Any], b: dict[str, Any]) -> list[Reason]:
    names: list[str] = [*a, *(name for name in b if name not in a)]
    return [
        reason("changed", what=name, before=_shown(a.get(name)), after=_shown(b.get(name)))
        for name in names
        if a.get(name) != b.get(name)
    ]


def _shown(value: Any) -> str:
    return "–" if value is None else str(value)
