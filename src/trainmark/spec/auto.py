"""Device `auto`: the accelerators that a site's hosts have, one process for each, else the CPU. Pure."""

from __future__ import annotations

import msgspec

from trainmark.errors import UserError
from trainmark.spec.case_id import AUTO, CaseId
from trainmark.spec.site import Accelerators, Site
from trainmark.spec.workload import Workload

CPU = "cpu"
NONE_FOUND = Accelerators(CPU)
# A preset has a second form with sizes and number format for accelerators, if the workload knows one.
_FOR_ACCELERATORS = "{}-accelerator"
# What people call devices of one vendor by the names of its libraries.
_ALIASES = {"cuda": "nvidia", "npu": "ascend"}


def is_asked(raw: object) -> bool:
    """Whether the cases of a suite, as they were read, may say `auto`; some that do not may look like it."""
    return AUTO in str(raw)


def named(case: CaseId, site: Site, place: str) -> CaseId:
    """The case with a device and a number of processes."""
    case = _own_name(case, site)
    if case.device != AUTO and case.nproc:
        return case
    found = site.accelerators
    if found is None:
        raise UserError(
            f"{place}: `{case}`: what the hosts of site `{site.name}` have is not known here; name the device and the "
            "processes, or say it in the site: `accelerators: {device: nvidia, count: 8}`"
        )
    if case.device == AUTO:
        return msgspec.structs.replace(case, device=found.device, nproc=case.nproc or found.count)
    # As many processes as there are devices, of a kind that was named.
    vendors = [site.devices.get(name, name) for name in (case.device, found.device)]
    if case.device != CPU and vendors[0] != vendors[1]:
        raise UserError(f"{place}: `{case}`: site `{site.name}` has no {case.device}, it has {found.device}")
    return msgspec.structs.replace(case, nproc=found.count if case.device != CPU else 1)


def preset_for(preset: str, vendor: str, workload: Workload) -> str:
    """The preset of a case that asked for `auto`, for the kind of device it got."""
    other = _FOR_ACCELERATORS.format(preset)
    return other if vendor != CPU and other in workload.presets else preset


def _own_name(case: CaseId, site: Site) -> CaseId:
    if case.device in site.devices or case.device not in _ALIASES:
        return case
    return msgspec.structs.replace(case, device=_ALIASES[case.device])
