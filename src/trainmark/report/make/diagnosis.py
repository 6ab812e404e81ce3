"""A diagnostic run read: its traces and step times, block by block, as one diagnosis for each case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainmark.plan.records import Diagnostic
from trainmark.reasons import Reason, reason
from trainmark.score.diagnosis import causes as diagnosis
from trainmark.score.diagnosis.causes import Observed, RoundTrace
from trainmark.score.figures.phases import pauses
from trainmark.score.records import Diagnosis
from trainmark.spec.columns import Columns, RankColumns, Trace
from trainmark.spec.states import JobState
from trainmark.store import columns, traces
from trainmark.store.rundir import RunDir
from trainmark.store.state import RunState

NS = 1e-9


def of_run(run: RunDir, state: RunState) -> list[Diagnosis]:
    """One for each case that was diagnosed, in the order of the plan; none for a run of timed rounds."""
    cases: dict[str, dict[str, int]] = {}
    for index, case in enumerate(state.plan.cases):
        if case.diagnostic is not None:
            cases.setdefault(case.diagnostic.of, {})[case.diagnostic.mode] = index
    return [_case(run, state, name, modes) for name, modes in cases.items()]


def _case(run: RunDir, state: RunState, name: str, modes: dict[str, int]) -> Diagnosis:
    folders = {mode: _folders(run, state, index) for mode, index in modes.items()}
    case = state.plan.cases[modes["trace"]]
    asked = case.diagnostic
    assert asked is not None  # noqa: S101 - of_run looked
    outcomes = {mode: state.case_outcome(index) for mode, index in modes.items()}
    remarks = [
        reason("of-mode", mode=mode, why=why)
        for mode, (found, why) in outcomes.items()
        if found is not JobState.SUCCEEDED and why
    ]
    hosts: dict[int, str] = {}
    blocks = []
    for number in sorted({number for found in folders.values() for number in found}):
        read = {mode: columns.read(found[number], case.world) for mode, found in folders.items() if number in found}
        for rank in (rank for found in read.values() for rank in found.ranks):
            hosts[rank.rank] = rank.node.rpartition("_noderank")[0] or rank.node
        times = {mode: step_times(found, asked) for mode, found in read.items()}
        traced = _round(folders["trace"][number], sorted(_ranks(read["trace"])), asked) if "trace" in read else None
        if isinstance(traced, Reason):
            remarks.append(reason("classes-left-out", round=number, why=traced))
            traced = None
        alone = times.get("alone") if _separated(read.get("alone")) else None
        blocks.append(Observed(traced, times.get("plain") or None, alone or None))
    if "alone" in modes and len(hosts) > 1 and all(block.alone is None for block in blocks):
        remarks.append(reason("no-shared-gradients"))
    return diagnosis.diagnose(name, blocks, hosts, remarks)


def _folders(run: RunDir, state: RunState, index: int) -> dict[int, Path]:
    """Round → folder of the attempt that counts."""
    case = state.plan.cases[index]
    return {ref.round: run.attempt(case, ref, attempt.number) for ref, attempt in state.counted(index)}


def _ranks(found: Columns) -> list[int]:
    return [rank.rank for rank in found.ranks if rank.steps is not None]


def _separated(found: Columns | None) -> bool:
    """Whether gradients really stayed on every rank."""
    if found is None or not found.ranks:
        return False
    facts: list[Any] = [fact for rank in found.ranks for fact in rank.notes("diagnostic")[-1:]]
    return len(facts) == len(found.ranks) and all(isinstance(f, dict) and f.get("separated") for f in facts)


def step_times(found: Columns, asked: Diagnostic) -> dict[int, float]:
    """Rank → seconds per step that counts, declared pauses left out; only of ranks that made all of them."""
    times = {rank.rank: _seconds(rank, asked) for rank in found.ranks}
    return {rank: seconds for rank, seconds in times.items() if seconds is not None}


def _seconds(rank: RankColumns, asked: Diagnostic) -> float | None:
    steps = rank.steps
    if steps is None or len(steps.t) < asked.skip + asked.steps:
        return None
    begin, end = int(steps.t[asked.skip - 1]), int(steps.t[asked.skip + asked.steps - 1])
    paused = sum(
        min(until, end) - max(since, begin) for _, since, until in pauses(rank) if since < end and until > begin
    )
    return (end - begin - paused) * NS / asked.steps


def _round(folder: Path, ranks: list[int], asked: Diagnostic) -> RoundTrace | Reason:
    files = traces.find(folder)
    missing = [rank for rank in ranks if rank not in files]
    if missing or not ranks:
        return reason("no-trace-of-ranks", ranks=missing) if missing else reason("no-rank-told-a-step")
    found: list[Trace] = []
    for rank in ranks:
        one = traces.read(files[rank], rank, asked.steps)
        if isinstance(one, Reason):
            return one
        found.append(one)
    return diagnosis.read_round(found)


def gather(run: RunDir, state: RunState) -> Path | None:
    """All traces of a run in one folder, for tools that open folders. They stay where they are, too."""
    import os
    import shutil

    target = run.path / "traces"
    for index, case in enumerate(state.plan.cases):
        if case.diagnostic is None or case.diagnostic.mode != "trace":
            continue
        for number, folder in _folders(run, state, index).items():
            for rank, file in traces.find(folder).items():
                target.mkdir(exist_ok=True)
                name = f"{case.id.workload}-{case.id.nnodes}n{case.id.nproc}p-{index}-round{number}-rank{rank}"
                to = target / f"{name}.pt.trace{traces.SUFFIX}"
                if not to.exists():
                    try:
                        os.link(file, to)
                    except OSError:
                        shutil.copyfile(file, to)
    return target if target.is_dir() else None
