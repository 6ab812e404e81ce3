"""Every figure of a run: unit, formula, and how runs make one measurement of it. docs/metrics.md explains them."""

from __future__ import annotations

from typing import Literal

import msgspec

# rate: positive, geometric mean with t on the logarithm. mean, excess (≥ 0), share (0 to 1): mean with t, the interval
# cut at what can be. sum, highest: what they say.
Kind = Literal["rate", "mean", "excess", "share", "sum", "highest"]


class Definition(msgspec.Struct, frozen=True):
    """`{unit}` in a unit is what the workload calls a sample."""

    name: str
    unit: str
    kind: Kind
    formula: str


# Of the times of single steps.
PERCENTILES = {"p50": "median", "p90": "90th percentile", "p99": "99th percentile", "max": "largest"}
_ALL = (
    Definition("steps", "steps", "sum", "steps of the rank with the fewest, all counted rounds"),
    Definition("samples", "{unit}", "sum", "samples of every rank, all counted rounds"),
    Definition(
        "throughput",
        "{unit}/s",
        "rate",
        "samples of the window over all ranks ÷ longest duration of any rank, declared phases left out",
    ),
    Definition(
        "sustained_throughput",
        "{unit}/s",
        "rate",
        "samples of the window over all ranks ÷ longest duration of any rank, declared phases included",
    ),
    *(
        Definition(f"step_time_{name}", "s", "rate", f"{text} of single step times of the slowest rank in the window")
        for name, text in PERCENTILES.items()
    ),
    Definition("straggler", "fraction", "excess", "duration of the slowest rank in the window ÷ median over ranks − 1"),
    Definition("data_wait", "fraction", "share", "time the slowest-fed rank waited for data ÷ duration of the window"),
    Definition("end_to_end_time", "s", "rate", "INIT_START to FINISHED (or the last event), longest over ranks"),
    Definition("init_time", "s", "rate", "INIT_START to INIT_END, longest over ranks"),
    Definition("train_time", "s", "rate", "TRAIN_START to TRAIN_END, longest over ranks"),
    Definition("train_no_eval_time", "s", "rate", "train_time − evaluation, longest over ranks"),
    Definition(
        "pure_compute_time", "s", "rate", "train_time − evaluation − checkpoints − waiting for data, longest over ranks"
    ),
    Definition("p_whole", "{unit}/s", "rate", "all samples ÷ train_time"),
    Definition("p_train", "{unit}/s", "rate", "all samples ÷ train_no_eval_time"),
    Definition("p_core", "{unit}/s", "rate", "all samples ÷ pure_compute_time"),
    Definition("achieved_flops", "FLOP/s", "rate", "FLOPs per sample × throughput"),
    Definition(
        "mfu", "fraction", "share", "achieved_flops ÷ the vendor's dense peak of the number format, all devices"
    ),
    Definition("hfu", "fraction", "share", "hardware FLOPs per sample × throughput ÷ the same peak as mfu"),
    Definition("matmul_fraction", "fraction", "share", "achieved_flops ÷ measured matrix product FLOP/s of all ranks"),
    Definition("peak_memory", "bytes", "highest", "largest `peak_memory_bytes` of any rank and round"),
    Definition(
        "cpu_utilisation", "fraction", "share", "mean share of all processors at work in the window, over nodes"
    ),
    Definition("memory_used", "bytes", "highest", "largest memory in use of any node in the window, any round"),
    Definition("agent_cpu", "cores", "excess", "mean processors used by trainmark's agent in the window, over nodes"),
    Definition("energy", "J", "rate", "energy of all nodes over the window"),
    Definition("energy_per_sample", "J/{unit}", "rate", "energy ÷ samples of the window"),
    Definition("energy_per_step", "J/step", "rate", "energy ÷ steps of the window"),
    Definition("samples_per_joule", "{unit}/J", "rate", "samples of the window ÷ energy"),
    Definition("energy_run", "J", "rate", "energy of all nodes from the first event of a round to its last"),
    Definition("power_mean", "W", "rate", "energy ÷ duration of the window"),
    Definition("power_max", "W", "highest", "sum of the largest power of each part in the window, any round"),
    Definition("device_utilisation", "fraction", "share", "mean over the ranks' devices and samples of the window"),
    Definition("device_memory_used", "bytes", "highest", "largest memory in use of any of the ranks' devices"),
    Definition("device_temperature", "°C", "highest", "largest temperature of any of the ranks' devices"),
    Definition("final_loss", "loss", "mean", "loss of the last step that has one, mean over ranks"),
    Definition("disturbed_rounds", "rounds", "sum", "counted rounds in which the machine was not the run's own"),
)
DEFINITIONS = {definition.name: definition for definition in _ALL}
EVALUATION = "evaluation_"
# Made of steps and samples: they are given together, or withheld together.
GATED = frozenset(
    (
        *("throughput", "sustained_throughput", "straggler", "data_wait", "p_whole", "p_train", "p_core"),
        *("achieved_flops", "mfu", "hfu", "matmul_fraction", "energy_per_sample"),
        *("energy_per_step", "samples_per_joule"),
        *(f"step_time_{name}" for name in PERCENTILES),
    )
)


def definition(name: str) -> Definition:
    """Of a figure by name; `evaluation_METRIC` is one for every metric of the workload."""
    if name in DEFINITIONS:
        return DEFINITIONS[name]
    metric = name.removeprefix(EVALUATION)
    return Definition(name, metric, "mean", f"`{metric}` of the last evaluation")
