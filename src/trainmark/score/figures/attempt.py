"""One attempt, scored: columns and samples → figures, each with a value or the reason why it has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, listed, reason
from trainmark.score.figures import compute, contention, convergence, hook_reports, phases
from trainmark.score.figures import energy as energies
from trainmark.score.figures.compute import PeakFlops
from trainmark.score.figures.convergence import Reach
from trainmark.score.figures.definitions import EVALUATION, GATED, PERCENTILES
from trainmark.score.records import Figure, Flag, Window, known, ratio
from trainmark.spec.columns import Columns, NodeSamples, RankColumns, is_number
from trainmark.spec.rules import FixedWindow
from trainmark.spec.workload import Target

if TYPE_CHECKING:
    from trainmark.score.figures.steps import Grid
    from trainmark.score.figures.window import FoundWindow

NO_WINDOW = reason("no-window")
NO_STEPS = reason("no-steps")


class Question(msgspec.Struct, frozen=True):
    """What must be known of the case to score its runs."""

    world: int | None = None
    window: FixedWindow | None = None
    target: Target | None = None
    flops_per_sample: float | None = None
    peak: PeakFlops = PeakFlops(None, reason("no-peak"))
    # FLOP/s of a matrix product on all ranks, where the site was measured.
    reachable: float | None = None


class RunScore(msgspec.Struct, frozen=True):
    """One attempt, scored. It holds no raw data, so that it can be stored."""

    figures: dict[str, Figure]
    window: Window | None = None
    # Why no speed is given, if none is: it would be a false one.
    reason: Reason | None = None
    # What is wrong with the figures that are given.
    flags: list[Flag] = []
    # What a reader must know of this run.
    notes: list[Reason] = []
    disturbed: list[Reason] = []
    phases: dict[str, float] = {}
    step_time: dict[str, float] = {}
    histogram_edges: list[float] = []
    histogram_counts: list[int] = []
    reach: Reach | None = None

    def value(self, name: str) -> float | None:
        figure = self.figures.get(name)
        return None if figure is None else figure.value


def score_run(columns: Columns, nodes: Sequence[NodeSamples] = (), question: Question | None = None) -> RunScore:
    """Everything about one attempt. Without steps no array is touched, and what works on arrays is not imported."""
    asked = question or Question()
    ranks = columns.ranks
    made = [rank for rank in ranks if rank.steps is not None]
    grid, found = _window(ranks, asked.window) if made else (None, _no_grid(ranks))
    window, none = (None, found) if isinstance(found, Reason) else (found.window, None)
    flaw = _flaws(ranks, asked.world) or none
    samples = sum(int(rank.steps.n.sum()) for rank in made if rank.steps is not None)
    throughput = _rate(window, window.seconds if window else None)
    times = _times(ranks, grid, found)
    energy = energies.energy(list(nodes), times if window else {})
    lives = phases.longest(ranks)
    figures = {
        "steps": Figure(float(min((_steps(rank) for rank in ranks), default=0))),
        "samples": Figure(float(samples)) if samples or not made else Figure(None, hook_reports.NO_SAMPLES),
        "throughput": throughput,
        "sustained_throughput": _rate(window, window.sustained_seconds if window else None),
        **_in_window(grid, found, ranks),
        **_durations(lives, samples),
        **compute.figures(ranks, throughput, asked.flops_per_sample, asked.peak, asked.reachable),
        **_usage(ranks, nodes, times),
        **_energy(energy, nodes, window, times, ranks),
        "final_loss": _final_loss(made),
    }
    evaluated = convergence.last_values(convergence.evaluations(ranks))
    figures.update({EVALUATION + name: Figure(value) for name, value in evaluated.items()})
    if flaw is not None:
        figures.update(withheld(figures, flaw))
        # Without a window the samples may well have been counted right.
        figures["samples"] = figures["samples"] if flaw is none else Figure(None, flaw)
    spread = _histogram(found, ranks) if flaw is None else ([], [])
    return RunScore(
        figures=figures,
        window=window,
        reason=flaw,
        flags=window.flags if window else [],
        notes=_uneven(made),
        disturbed=contention.disturbed(list(nodes), times),
        phases=lives[0].parts() if lives else {},
        step_time={name: figures[f"step_time_{name}"].value or 0.0 for name in PERCENTILES if spread[0]},
        histogram_edges=spread[0],
        histogram_counts=spread[1],
        reach=convergence.reach(ranks, asked.target) if asked.target is not None else None,
    )


def times_of(ranks: Sequence[RankColumns], fixed: FixedWindow | None) -> tuple[dict[str, tuple[int, int]], ...]:
    """On each node's clock: the window (empty where there is none), and the whole round."""
    grid, found = _window(ranks, fixed) if any(rank.steps is not None for rank in ranks) else (None, NO_STEPS)
    window = {} if isinstance(found, Reason) else _times(ranks, grid, found)
    return window, _times(ranks, None, NO_STEPS)


def _window(ranks: Sequence[RankColumns], fixed: FixedWindow | None) -> tuple[Grid | None, FoundWindow | Reason]:
    from trainmark.score.figures import steps, window

    grid = steps.grid(ranks)
    return grid, window.find(grid, fixed) if grid is not None else _no_grid(ranks)


def _in_window(grid: Grid | None, found: FoundWindow | Reason, ranks: Sequence[RankColumns]) -> dict[str, Figure]:
    if grid is None or isinstance(found, Reason):
        names = [*(f"step_time_{name}" for name in PERCENTILES), "straggler", "data_wait"]
        return dict.fromkeys(names, Figure(None, NO_WINDOW))
    from trainmark.score.figures.window import step_figures

    return step_figures(grid, found, ranks)


def _histogram(found: FoundWindow | Reason, ranks: Sequence[RankColumns]) -> tuple[list[float], list[int]]:
    if isinstance(found, Reason):
        return [], []
    from trainmark.score.figures.window import step_histogram

    return step_histogram(found, ranks)


def _count(rank: RankColumns) -> int:
    return len(rank.steps.step) if rank.steps is not None else 0


def _steps(rank: RankColumns) -> int:
    """How many steps were made. A record of a foreign log may tell of several: those since the one before it."""
    if rank.steps is None or rank.timing in ("host", "host-enqueue") or len(rank.steps.step) < 2:
        return _count(rank)
    first, second, last = (int(rank.steps.step[at]) for at in (0, 1, -1))
    return last - first + min(first, second - first)


def _no_grid(ranks: Sequence[RankColumns]) -> Reason:
    least = min((_count(rank) for rank in ranks), default=0)
    return reason("steps-make-no-window", steps=least) if least else NO_STEPS


def _flaws(ranks: Sequence[RankColumns], world: int | None) -> Reason | None:
    """What makes any speed a false one."""
    odd = sum(rank.odd for rank in ranks)
    if odd:
        return reason("impossible-steps", count=odd)
    made = [rank.rank for rank in ranks if rank.steps is not None]
    silent = sorted(set(range(world)) - set(made)) if world is not None else []
    if silent and made and not any(rank.speaks_for_all for rank in ranks):
        return reason("silent-ranks", count=len(silent), world=world, ranks=listed(silent))
    return hook_reports.doubt(ranks)


def _uneven(ranks: Sequence[RankColumns]) -> list[Reason]:
    """Ranks that ended before the others: the steps after that are out of the window."""
    ends = {rank.rank: int(rank.steps.step[-1]) for rank in ranks if rank.steps is not None}
    last = max(ends.values(), default=0)
    early = [rank for rank, end in ends.items() if end < last]
    if not early:
        return []
    return [reason("ranks-stopped-early", ranks=listed(early), step=min(ends.values()), last=last)]


def withheld(figures: Mapping[str, Figure], flaw: Reason) -> dict[str, Figure]:
    """The one gate: where a speed would be a false one, so would every figure that is made of steps and samples."""
    return {name: Figure(None, flaw) for name in figures if name in GATED}


def _rate(window: Window | None, seconds: float | None) -> Figure:
    return Figure(window.samples / seconds) if window is not None and seconds else Figure(None, NO_WINDOW)


def _times(ranks: Sequence[RankColumns], grid: Grid | None, found: FoundWindow | Reason) -> dict[str, tuple[int, int]]:
    """The window on each node's clock, which its ranks share; without a window, the whole round."""
    times: dict[str, tuple[int, int]] = {}
    if grid is None or isinstance(found, Reason):
        spans = [(rank.node, rank.first, rank.last) for rank in ranks]
    else:
        begins, ends = grid.t[:, found.first].tolist(), grid.t[:, found.last].tolist()
        spans = list(zip(grid.nodes, begins, ends, strict=True))
    for node, begin, end in spans:
        low, high = times.get(node, (begin, end))
        times[node] = (min(low, begin), max(high, end))
    return times


def _durations(lives: Sequence[phases.RankTimes], samples: int) -> dict[str, Figure]:
    found = {"end_to_end_time": known(max((life.end_to_end for life in lives), default=None), reason("no-events"))}
    for name, rate, parts, missing in (
        ("init_time", "", [life.init for life in lives], "INIT_END"),
        ("train_time", "p_whole", [life.train for life in lives], "TRAIN_START"),
        ("train_no_eval_time", "p_train", [life.no_evaluation for life in lives], "TRAIN_START"),
        ("pure_compute_time", "p_core", [life.compute for life in lives], "TRAIN_START"),
    ):
        values = [part for part in parts if part is not None]
        longest = max(values) if values and len(values) == len(parts) else None
        found[name] = known(longest, reason("no-mark", mark=missing))
        if rate:
            whole = ratio(Figure(float(samples)), longest, reason("no-figure", figure=name))
            found[rate] = whole if samples else Figure(None, NO_STEPS)
    return found


def _usage(
    ranks: Sequence[RankColumns], nodes: Sequence[NodeSamples], times: dict[str, tuple[int, int]]
) -> dict[str, Figure]:
    """Processors and memory while the window lasted; unknown unless every node was sampled in it."""
    peaks = [value for rank in ranks for value in rank.notes("peak_memory_bytes")[-1:] if is_number(value)]
    every = bool(ranks) and len(peaks) == len(ranks)
    missing = reason("peak-memory-not-noted")
    found = {"peak_memory": known(max(map(float, peaks)) if every else None, missing)}
    missing = reason("nodes-not-sampled")
    spans = [(samples, *times[samples.node]) for samples in nodes if samples.node in times]
    for name, field in (("cpu_utilisation", "cpu"), ("agent_cpu", "agent_cpu")):
        means = [mean for samples, *span in spans if (mean := samples.mean(field, *span)) is not None]
        whole = bool(means) and len(means) == len(times)
        found[name] = known(sum(means) / len(means) if whole else None, missing)
    used = [
        max((r["mem_used"] for r in samples.within(*span) if is_number(r.get("mem_used"))), default=None)
        for samples, *span in spans
    ]
    found.update(_devices(spans))
    some = [float(value) for value in used if value is not None]
    whole = bool(some) and len(some) == len(times)
    found["memory_used"] = known(max(some) if whole else None, missing)
    return found


def _devices(spans: Sequence[tuple[NodeSamples, int, int]]) -> dict[str, Figure]:
    """Of the devices that ranks had, while the window lasted."""
    seen: dict[str, list[float]] = {"utilisation": [], "memory_used": [], "temperature_c": []}
    for samples, begin, end in spans:
        for record in samples.within(begin, end):
            for one in record.get("devices") or []:
                if samples.devices is None or one.get("index") in samples.devices:
                    for name, values in seen.items():
                        if is_number(one.get(name)):
                            values.append(float(one[name]))
    missing = reason("no-devices-sampled")
    busy = seen["utilisation"]
    return {
        "device_utilisation": known(sum(busy) / len(busy) if busy else None, missing),
        "device_memory_used": known(max(seen["memory_used"], default=None), missing),
        "device_temperature": known(max(seen["temperature_c"], default=None), missing),
    }


def _energy(
    energy: Figure,
    nodes: Sequence[NodeSamples],
    window: Window | None,
    times: dict[str, tuple[int, int]],
    ranks: Sequence[RankColumns],
) -> dict[str, Figure]:
    """Of the window, and of the whole round: from the first event of a node's ranks to their last."""
    lives = _times(ranks, None, NO_STEPS)
    missing = energy.reason or NO_WINDOW
    seconds = max(((end - begin) * 1e-9 for begin, end in times.values()), default=0.0)
    highest = energies.highest_power(list(nodes), times) if energy.value is not None else None
    steps = float(window.steps) if window else None
    samples = Figure(float(window.samples)) if window and energy.value is not None else Figure(None, missing)
    return {
        "energy": energy,
        "energy_per_sample": ratio(energy, float(window.samples) if window else None, NO_WINDOW),
        "energy_per_step": ratio(energy, steps, NO_WINDOW),
        "samples_per_joule": ratio(samples, energy.value, missing),
        "power_mean": ratio(energy, seconds or None, NO_WINDOW),
        "power_max": known(highest, missing),
        "energy_run": energies.energy(list(nodes), lives),
    }


def _final_loss(ranks: Sequence[RankColumns]) -> Figure:
    """At the last step for which any rank reported a loss."""
    if not ranks:
        return Figure(None, NO_STEPS)
    import numpy as np

    known_at = [(rank.steps, np.flatnonzero(~np.isnan(rank.steps.loss))) for rank in ranks if rank.steps is not None]
    last = max((int(steps.step[at[-1]]) for steps, at in known_at if len(at)), default=None)
    if last is None:
        return Figure(None, reason("no-loss"))
    values = [float(steps.loss[at[-1]]) for steps, at in known_at if len(at) and steps.step[at[-1]] == last]
    mean = sum(values) / len(values)
    return Figure(mean) if is_number(mean) else Figure(None, reason("final-loss-not-finite", step=last))
