"""The description of a system, as MLPerf wants it beside its results."""

from __future__ import annotations

from typing import Any

import msgspec

from trainmark.interop.writing.runs import Done, Output

# fmt: off
_FIELDS = (
    "submitter", "division", "status", "system_name", "number_of_nodes", "host_processors_per_node",
    "host_processor_model_name", "host_processor_core_count", "host_processor_vcpu_count", "host_processor_frequency",
    "host_processor_caches", "host_processor_interconnect", "host_memory_capacity", "host_storage_type",
    "host_storage_capacity", "host_networking", "host_networking_topology", "host_memory_configuration",
    "accelerators_per_node", "accelerator_model_name", "accelerator_host_interconnect", "accelerator_frequency",
    "accelerator_on-chip_memories", "accelerator_memory_configuration", "accelerator_memory_capacity",
    "accelerator_interconnect", "accelerator_interconnect_topology", "cooling", "hw_notes", "framework",
    "other_software_stack", "operating_system", "sw_notes",
)
# fmt: on


def describe(out: Output, org: str, system: str, done: Done) -> None:
    """systems/<name>.json: every field is there, and empty where nobody survey."""
    facts, case = done.facts(), done.case
    found = facts.get("cpu")
    cpu: dict[str, Any] = found if isinstance(found, dict) else {}
    memory = facts.get("memory_bytes")
    known: dict[str, Any] = {
        "submitter": org,
        "division": "open",
        "status": "Research, Development, or Internal (RDI)",
        "system_name": system,
        "number_of_nodes": len(case.nodes),
        "host_processors_per_node": cpu.get("sockets"),
        "host_processor_model_name": cpu.get("model"),
        "host_processor_core_count": cpu.get("cores"),
        "host_processor_vcpu_count": cpu.get("threads"),
        "host_processor_frequency": f"{cpu['max_mhz']} MHz" if cpu.get("max_mhz") else None,
        "host_memory_capacity": f"{memory / (1 << 30):.1f} GiB" if isinstance(memory, int) else None,
        "accelerators_per_node": 0 if case.vendor == "cpu" else case.id.nproc,
        "accelerator_model_name": "" if case.vendor == "cpu" else case.device,
        "framework": case.framework,
        "operating_system": facts.get("os"),
        "hw_notes": facts.get("machine_model"),
        "other_software_stack": f"Python {facts['python']}" if facts.get("python") else None,
    }
    described = {name: "" if known.get(name) is None else str(known[name]) for name in _FIELDS}
    out.write(f"{org}/systems/{system}.json", msgspec.json.format(msgspec.json.encode(described), indent=2) + b"\n")
