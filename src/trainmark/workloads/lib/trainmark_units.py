"""Number formats, and which of them this device computes in rather than emulating them."""

from __future__ import annotations

from pathlib import Path

from trainmark_job import InputError

# CPU flags, x86 and Arm, that stand for units computing in a format rather than emulating it, ~50 times slower.
CPU_UNITS = {
    "bf16": {"avx512_bf16", "amx_bf16", "bf16", "svebf16"},
    "fp16": {"avx512_fp16", "amx_fp16", "asimdhp"},
}


def check(dtype: str, device: str) -> None:
    """Refuse a format that `device` (cpu, cuda, nvidia, …) would only emulate."""
    if dtype == "tf32" and device not in ("cuda", "nvidia"):
        raise InputError("dtype tf32 is a format of NVIDIA devices; set dtype=fp32")
    if dtype in CPU_UNITS and device == "cpu" and not CPU_UNITS[dtype] & cpu_flags():
        wanted = " or ".join(sorted(CPU_UNITS[dtype]))
        raise InputError(f"this CPU has no {dtype} units ({wanted}) and would emulate them; set dtype=fp32")


def cpu_flags(path: str = "/proc/cpuinfo") -> set[str]:
    """What the first core can do, as Linux names it; empty where that is not known."""
    try:
        text = Path(path).read_text()
    except OSError:
        return set()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()
