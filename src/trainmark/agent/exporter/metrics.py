"""Readings as Prometheus' text format. Pure.

Names are those of NVIDIA's DCGM exporter where they mean the same, whoever made the device: dashboards that were made
for it show these, too.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

MIB = 1 << 20


class Metric(NamedTuple):
    name: str
    kind: str  # gauge or counter
    help: str


# reading → metric, and the factor from our unit to its own.
_DEVICE: Dict[str, Tuple[Metric, float]] = {
    "utilisation": (Metric("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."), 100.0),
    "memory_utilisation": (Metric("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."), 100.0),
    "memory_used": (Metric("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."), 1.0 / MIB),
    "power_w": (Metric("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."), 1.0),
    "energy_j": (
        Metric("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
        1000.0,
    ),
    "temperature_c": (Metric("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."), 1.0),
    "memory_temperature_c": (Metric("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."), 1.0),
    "clock_mhz": (Metric("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."), 1.0),
    "memory_clock_mhz": (Metric("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."), 1.0),
    "clock_reasons": (Metric("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gauge", "Why clocks are held down (bits)."), 1.0),
    "pcie_replays": (Metric("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."), 1.0),
    "error": (Metric("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."), 1.0),
    "uncorrected": (
        Metric("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."),
        1.0,
    ),
    "slowed": (Metric("trainmark_device_slowed", "gauge", "1: held down by heat, a power brake or hardware."), 1.0),
    "healthy": (Metric("trainmark_device_healthy", "gauge", "1: the vendor's tool calls it healthy."), 1.0),
    "retired_pages": (
        Metric("trainmark_device_retired_pages_total", "counter", "Pages or rows out of use."),
        1.0,
    ),
    "pcie_rx": (Metric("trainmark_device_pcie_rx", "gauge", "Bytes per second received over PCIe."), 1.0),
    "pcie_tx": (Metric("trainmark_device_pcie_tx", "gauge", "Bytes per second sent over PCIe."), 1.0),
    "link_rx": (Metric("trainmark_device_link_rx", "gauge", "Bytes per second received over device links."), 1.0),
    "link_tx": (Metric("trainmark_device_link_tx", "gauge", "Bytes per second sent over device links."), 1.0),
    "roce_rx": (Metric("trainmark_device_roce_rx", "gauge", "Bytes per second received over its RoCE port."), 1.0),
    "roce_tx": (Metric("trainmark_device_roce_tx", "gauge", "Bytes per second sent over its RoCE port."), 1.0),
    "roce_errors": (Metric("trainmark_device_roce_errors_total", "counter", "Bad packets at its RoCE port."), 1.0),
    "roce_retries": (Metric("trainmark_device_roce_retries_total", "counter", "RoCE packets sent again."), 1.0),
}
_FREE = Metric("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).")
_OF_A_LOST_ONE = {"index", "error", "errors"}
_COUNT = Metric("trainmark_devices", "gauge", "Devices that answer.")
_AGE = Metric("trainmark_devices_age_seconds", "gauge", "Seconds since devices were read: grows while a tool hangs.")
_STEP = Metric("trainmark_rank_step", "gauge", "Steps that a rank has made.")
_SAMPLES = Metric("trainmark_rank_samples_total", "counter", "Samples that a rank has trained.")
_LOSS = Metric("trainmark_rank_loss", "gauge", "The last loss that a rank told.")
_WAIT = Metric("trainmark_rank_data_wait_seconds", "gauge", "What a rank waited for data in its last step.")
_RATE = Metric("trainmark_node_throughput", "gauge", "Samples per second of a round's ranks on this node.")
_CPU = Metric("trainmark_exporter_cpu_seconds_total", "counter", "Processor time of this exporter, tools included.")

Labels = Mapping[str, str]


class Page:
    """Samples by metric, each metric's together, as the format wants them."""

    def __init__(self) -> None:
        self._found: Dict[Metric, List[str]] = {}

    def add(self, metric: Metric, labels: Labels, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            return
        said = ",".join('%s="%s"' % (name, _escaped(text)) for name, text in labels.items())
        self._found.setdefault(metric, []).append("%s{%s} %r" % (metric.name, said, value))

    def text(self) -> str:
        lines: List[str] = []
        for metric, samples in self._found.items():
            lines += [
                "# HELP %s %s" % (metric.name, metric.help),
                "# TYPE %s %s" % (metric.name, metric.kind),
                *samples,
            ]
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def devices(page: Page, host: str, facts: Mapping[str, Any], record: Mapping[str, Any], age: Optional[float]) -> None:
    """One vendor's devices: `facts` is what `detect` said, `record` the last sample, `age` seconds since then."""
    known = facts.get("devices") or []
    vendor = str(facts.get("vendor"))
    read = record.get("devices") or []
    for place, one in enumerate(read):
        index = int(one.get("index", place))
        fact = known[index] if index < len(known) else {}
        labels = {
            "gpu": str(index),
            "UUID": str(fact.get("uuid") or ""),
            "device": "%s%d" % (vendor, index),
            "modelName": str(fact.get("model") or ""),
            "Hostname": host,
            "vendor": vendor,
        }
        for name, (metric, factor) in _DEVICE.items():
            if one.get(name) is not None:
                page.add(metric, labels, one[name] * factor)
        if one.get("memory_total") is not None and one.get("memory_used") is not None:
            page.add(_FREE, labels, (one["memory_total"] - one["memory_used"]) / MIB)
    # One that is lost still has its number and the driver's errors, and tells nothing else.
    page.add(_COUNT, {"Hostname": host, "vendor": vendor}, sum(bool(set(one) - _OF_A_LOST_ONE) for one in read))
    if age is not None:
        page.add(_AGE, {"Hostname": host, "vendor": vendor}, age)


def rounds(page: Page, host: str, running: Iterable[Mapping[str, Any]]) -> None:
    """Rounds that run here: `run`, `case`, `round`, the agent's status, and what ranks told last."""
    for one in running:
        labels = {"Hostname": host, "run": one["run"], "case": one["case"], "round": one["round"]}
        page.add(_RATE, labels, one["status"].get("rate"))
        for rank in one["status"].get("ranks") or []:
            of_rank = dict(labels, rank=str(rank.get("rank")))
            page.add(_STEP, of_rank, rank.get("step"))
            page.add(_SAMPLES, of_rank, rank.get("samples"))
            told = one["told"].get(rank.get("rank")) or {}
            page.add(_LOSS, of_rank, told.get("loss"))
            page.add(_WAIT, of_rank, told.get("data"))


def own_cost(page: Page, host: str, seconds: float) -> None:
    page.add(_CPU, {"Hostname": host}, seconds)
