"""Whether a case can run on this site at all: what it needs is there, and the units it asks for exist."""

from __future__ import annotations

from pathlib import Path

from trainmark.plan.records import CasePlan
from trainmark.reasons import Reason, reason
from trainmark.spec.case import SYNTHETIC

# A CPU without these units runs the narrow types by emulation, tens of times slower than fp32.
_CPU_UNITS = {"bf16": ("avx512_bf16", "amx_bf16", "bf16"), "fp16": ("avx512_fp16", "amx_fp16", "fphp")}


def unmet_elsewhere(case: CasePlan) -> Reason | None:
    """The same for other hosts, of which only the launcher's checks can know what is there."""
    return case.skipped or (_missing_data(case) if case.data is None else None)


def unmet(case: CasePlan) -> Reason | None:
    """The first thing that is missing, with its cure; None when nothing is."""
    return (
        case.skipped
        or _missing_data(case)
        or _missing_checkpoint(case)
        or _missing_unit(case)
        or _missing_starter(case)
    )


def _missing_data(case: CasePlan) -> Reason | None:
    if case.data is None:
        return reason("data-not-named") if case.data_required else None
    if case.data == SYNTHETIC or Path(case.data).exists():
        return None
    if case.data_name:
        return reason("data-set-missing", path=case.data, name=case.data_name)
    return reason("data-missing", path=case.data)


def _missing_checkpoint(case: CasePlan) -> Reason | None:
    if case.checkpoint is None or Path(case.checkpoint).exists():
        return None
    return reason("checkpoint-missing", path=case.checkpoint)


def _missing_starter(case: CasePlan) -> Reason | None:
    if case.starter is None:
        return None
    import shutil

    if shutil.which(case.starter, path=case.env.get("PATH")):
        return None
    return reason("starter-missing", program=case.starter)


def _missing_unit(case: CasePlan) -> Reason | None:
    dtype = case.params.get("dtype")
    if case.open or case.vendor != "cpu" or dtype not in _CPU_UNITS:
        return None
    from trainmark.devices.cpu import node as host

    units = _CPU_UNITS[str(dtype)]
    if set(host.detect()["cpu"]["flags"]) & set(units):
        return None
    return reason("cpu-without-units", dtype=dtype, units=", ".join(units))
