"""Whether a case can run on this site at all: what it needs is there, and the units it asks for exist."""

from __future__ import annotations

from pathlib import Path

from trainmark.plan.records import CasePlan
from trainmark.spec.case import SYNTHETIC

# A CPU without these units runs the narrow types by emulation, tens of times slower than fp32.
_CPU_UNITS = {"bf16": ("avx512_bf16", "amx_bf16", "bf16"), "fp16": ("avx512_fp16", "amx_fp16", "fphp")}


def unmet_elsewhere(case: CasePlan) -> str | None:
    """The same for other hosts, of which only the launcher's checks can know what is there."""
    return _missing_data(case) if case.data is None else None


def unmet(case: CasePlan) -> str | None:
    """The first thing that is missing, as a sentence with its cure; None when nothing is."""
    for reason in (_missing_data(case), _missing_checkpoint(case), _missing_unit(case), _missing_starter(case)):
        if reason:
            return reason
    return None


def _missing_data(case: CasePlan) -> str | None:
    if case.data is None:
        return "it needs data: name it with `data:` in the suite or `--set data=PATH`" if case.data_required else None
    if case.data == SYNTHETIC or Path(case.data).exists():
        return None
    cure = f"`trainmark data get {case.data_name}` gets it" if case.data_name else "check `data:` in the suite or site"
    return f"data is not at {case.data}: {cure}"


def _missing_checkpoint(case: CasePlan) -> str | None:
    if case.checkpoint is None or Path(case.checkpoint).exists():
        return None
    return f"checkpoint is not at {case.checkpoint}: check `checkpoint:` in the suite"


def _missing_starter(case: CasePlan) -> str | None:
    if case.starter is None:
        return None
    import shutil

    if shutil.which(case.starter, path=case.env.get("PATH")):
        return None
    return f"{case.starter} is not on PATH: install it, as Debian's openmpi-bin does mpirun, or set PATH in `env:`"


def _missing_unit(case: CasePlan) -> str | None:
    dtype = case.params.get("dtype")
    if case.open or case.vendor != "cpu" or dtype not in _CPU_UNITS:
        return None
    from trainmark.devices.cpu import node as host

    units = _CPU_UNITS[str(dtype)]
    if set(host.detect()["cpu"]["flags"]) & set(units):
        return None
    return f"this CPU has no {dtype} units ({', '.join(units)}): use dtype=fp32, or a device that has them"
