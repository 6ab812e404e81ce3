"""Whether a host has the devices that a plan needs: what `detect` of the node side says, as findings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from trainmark.devices.node_side import visible
from trainmark.devices.node_side.watch import NODE_HALVES
from trainmark.launch.protocol import Finding
from trainmark.plan.records import Plan
from trainmark.reasons import as_reason, reason

Facts = Mapping[str, Any]
_LESS = ("device-absent", "devices-fewer", "devices-fewer-visible", "devices-mixed")


def wanted(plan: Plan) -> list[str]:
    """Vendors whose devices the agents would give to ranks."""
    return sorted({case.vendor for case in plan.cases if not case.open and case.vendor in NODE_HALVES})


def judge(host: str, facts: Facts, plan: Plan, environ: Mapping[str, str] | None = None) -> Iterator[Finding]:
    """What a plan would miss on a host. `environ`: what ranks inherit there, where that is known."""
    said = set()
    for case in plan.cases:
        known = facts.get(case.vendor)
        if known is None or case.open or not any(node.host in ("", host) for node in case.nodes):
            continue
        inherited = case.env.get(case.visible or "", (environ or {}).get(case.visible or ""))
        inherited = None if case.visible in plan.site.unset else inherited
        if any(case.visible in rank.env for node in case.nodes for rank in node.ranks):
            inherited = None  # the plan itself says who gets which
        wrong = visible.wrong(known, case.vendor, max(1, case.id.nproc), inherited)
        text = None if wrong is None else str(wrong)
        if wrong is None or text in said:
            continue
        said.add(text)
        cure = reason("device-cure-fewer") if wrong["code"] in _LESS else reason("device-cure-tool")
        grave = visible.is_grave(wrong)
        yield Finding(host, "devices", False if grave else None, as_reason(wrong) or wrong["code"], cure)


def shown(host: str, facts: Facts) -> Iterator[Finding]:
    """What there is, for `doctor`."""
    for vendor, found in facts.items():
        models = Counter(str(one.get("model") or vendor) for one in found.get("devices") or [])
        if models or found.get("count"):
            named = ", ".join(f"{count} × {name}" for name, count in sorted(models.items()))
            text = f"{named or '{} × {}'.format(found['count'], vendor)}, driver {found['driver'] or 'unknown'}"
            yield Finding(host, "devices", True, text)
        elif found.get("problem"):
            told = as_reason(found["problem"])
            yield Finding(host, "devices", None, told or vendor, reason("device-cure-tool"))
