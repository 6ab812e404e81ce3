"""Device `auto`: the accelerators that a site's hosts have, one process for each, else the CPU. Pure."""

from __future__ import annotations

import msgspec

from trainmark.devices.protocol import ALIASES
from trainmark.errors import SiteError, UserError
from trainmark.spec.case_id import AUTO, CaseId
from trainmark.spec.site import Accelerators, Site
from trainmark.spec.workload import Workload

CPU = "cpu"
NONE_FOUND = Accelerators(CPU)
# A preset has a second form with sizes and number format for accelerators, if the workload knows one.
_FOR_ACCELERATORS = "{}-accelerator"
# Whatever accelerator there is, and no CPU.
ANY = "gpu"


def is_asked(raw: object) -> bool:
    """Whether the cases of a suite, as they were read, may say `auto` or `gpu`; some that do not may look like it."""
    text = str(raw)
    return AUTO in text or ANY in text


def named(case: CaseId, site: Site, place: str) -> CaseId:
    """The case with a device and a number of processes."""
    case = _own_name(case, site)
    unnamed = case.device == AUTO or (case.device == ANY and ANY not in site.devices)
    if not unnamed and case.nproc:
        return case
    found = site.accelerators
    if found is None:
        raise UserError(
            f"{place}: `{case}`: what the hosts of site `{site.name}` have is not known here; name the device and the "
            "processes, or say it in the site: `accelerators: {device: nvidia, count: 8}`"
        )
    if unnamed and case.device == ANY and found.device == CPU:
        raise SiteError(
            f"{place}: `{case}`: no accelerator was found here; `cpu` names the processor, `auto` any device"
        )
    if unnamed:
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
    if case.device in site.devices or case.device not in ALIASES:
        return case
    return msgspec.structs.replace(case, device=ALIASES[case.device])
