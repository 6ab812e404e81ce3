"""Runs with known truth: events, attempts and whole run directories made from a few numbers, so that scoring can be
held against what is true. Everything follows from `Shape`, `Load` and a seed.

    shape = Shape(steps=300, seconds=0.1, samples=8, warmup=30, noise=0.02)
    columns = columns_of(shape, ranks=2)                    # for scoring alone
    run = write_run(tmp_path, "noop:none:cpu:1:2:3", [shape] * 3)      # for `report.build`; None is a failed round
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trainmark.plan.build import Places, build
from trainmark.spec import suite, suite_cases
from trainmark.spec.columns import Columns
from trainmark.spec.site import Site
from trainmark.spec.states import JobState
from trainmark.store import columns, journal, rundir
from trainmark.store.files import write_json
from trainmark.store.rundir import EVENTS, FACTS, RESULT, SAMPLES, Manifest, RunDir, node_dir

if TYPE_CHECKING:
    from trainmark.spec.columns import Floats

NS = 1_000_000_000
# Where the first node's clock stands.
CLOCK = 5_000 * NS
BLOCK = 10
INIT_SECONDS = 2.0
CORES = 4


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """One run. The truth of a steady one: `ranks × samples ÷ (seconds × the slowest rank's factor)` a second."""

    steps: int = 300
    seconds: float = 0.1
    samples: int = 8
    # Relative noise of steps: its deviation, its lag-one autocorrelation, the share of heavy-tailed outliers.
    noise: float = 0.0
    memory: float = 0.0
    outliers: float = 0.0
    # The first steps take longer by a factor.
    warmup: int = 0
    warmup_factor: float = 3.0
    # Relative change over the whole run; relative change from a place (share of the run) on.
    drift: float = 0.0
    level: float = 0.0
    level_at: float = 1.0
    # Step → seconds it takes longer.
    stalls: dict[int, float] = {}
    # Evaluations as declared phases; accuracy grows evenly and is this in the end.
    evaluate_every: int = 0
    evaluate_seconds: float = 1.0
    accuracy: float = 0.5
    # Share of a step spent waiting for data.
    data: float = 0.0
    # Rank → factor of its step times; rank → last step it makes (0: it says nothing at all).
    slow: dict[int, float] = {}
    dropped: dict[int, int] = {}
    # Seconds between the clocks of neighbouring nodes.
    skew: float = 0.0
    # `host-enqueue`: steps end at once for the host, the device is waited for every ten steps.
    timing: str = "host"
    # The device times each step; its times are told when a block ends, this many times as long as they are.
    events: float = 0.0
    # Noted by every rank.
    notes: dict[str, float] = {}


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What the sampler saw each second. `foreign`: processors at work for others; `clocks`: MHz, second by second."""

    ranks_cpu: float = 1.0
    foreign: float = 0.0
    steal: float = 0.0
    psi_cpu: float = 0.0
    watts: float | None = None
    counter: bool = True
    clocks: Sequence[float] = ()


def truth(shape: Shape, ranks: int) -> float:
    """Throughput of a steady run."""
    return ranks * shape.samples / (shape.seconds * max([1.0, *shape.slow.values()]))


def step_seconds(shape: Shape, seed: int = 0) -> Floats:
    """The time of every step of an ordinary rank, evaluations left out."""
    import numpy as np

    draw = np.random.default_rng(seed)
    n = shape.steps
    place = np.arange(n) / max(1, n)
    found = np.full(n, shape.seconds) * (1 + shape.drift * place)
    found[place >= shape.level_at] *= 1 + shape.level
    found[: shape.warmup] *= shape.warmup_factor
    if shape.noise:
        found *= np.exp(_noise(draw.normal(size=n + 100), shape))
    if shape.outliers:
        found *= 1 + np.where(draw.random(n) < shape.outliers, 0.5 * draw.pareto(1.5, n), 0.0)
    for step, seconds in shape.stalls.items():
        found[step - 1] += seconds
    return found


def _noise(shocks: Floats, shape: Shape) -> Floats:
    """A first-order autoregression that has settled after its first hundred values."""
    import numpy as np

    found = np.empty_like(shocks)
    level = 0.0
    for at, shock in enumerate(shocks):
        level = shape.memory * level + shock
        found[at] = level
    return found[100:] * shape.noise * float(np.sqrt(1 - shape.memory**2))


def lines(shape: Shape, rank: int = 0, node: int = 0, world: int = 1, seed: int = 0) -> Iterator[bytes]:
    """One rank's events as the probe writes them."""
    last = shape.dropped.get(rank, shape.steps)
    if last == 0:
        return
    writer = _Writer(rank, CLOCK + round(node * shape.skew * NS))
    yield writer.line("INIT_START", wall=0, unit="samples", device="cpu", timing=shape.timing, world=world)
    for name, value in shape.notes.items():
        yield writer.line("NOTE", name=name, value=value)
    yield writer.line("INIT_END", INIT_SECONDS)
    yield writer.line("TRAIN_START")
    seconds = (step_seconds(shape, seed)[:last] * shape.slow.get(rank, 1.0)).tolist()
    for step, duration in enumerate(seconds, 1):
        yield from _step(writer, shape, step, duration)
        if shape.events and step % BLOCK == 0:
            timed = [round(shape.events * one * NS) for one in seconds[step - BLOCK : step]]
            yield writer.line("TIMES", steps=list(range(step - BLOCK + 1, step + 1)), values=timed)
    yield writer.line("TRAIN_END")
    yield writer.line("NOTE", name="peak_memory_bytes", value=1_000_000 * (rank + 1))
    yield writer.line("FINISHED", 0.5, values={"converged": None})


def _step(writer: _Writer, shape: Shape, step: int, duration: float) -> Iterator[bytes]:
    queued = shape.timing != "host"
    began = writer.now
    loss = 2.0 / (1 + step / shape.steps)
    yield writer.step(step, 1e-4 if queued else duration, shape.samples, int(shape.data * duration * NS), loss)
    writer.now = began + round(duration * NS)
    if queued and step % BLOCK == 0:
        yield writer.line("BLOCK", step=step)
    if shape.evaluate_every and step % shape.evaluate_every == 0:
        yield writer.line("PHASE_BEGIN", name="evaluate")
        yield writer.line("PHASE_END", shape.evaluate_seconds, name="evaluate")
        yield writer.line("EVALUATE", step=step, values={"accuracy": shape.accuracy * step / shape.steps})


class _Writer:
    """Counts a rank's events and keeps its clock."""

    def __init__(self, rank: int, now: int) -> None:
        self._rank, self._seq, self.now = rank, 0, now

    def line(self, kind: str, after: float = 0.0, **fields: Any) -> bytes:
        self.now += round(after * NS)
        record = {"k": kind, "rank": self._rank, "seq": self._seq, "t": self.now, **fields}
        self._seq += 1
        return msgspec.json.encode(record) + b"\n"

    def step(self, step: int, after: float, samples: int, data: int, loss: float) -> bytes:
        self.now += round(after * NS)
        head = (self._rank, self._seq, self.now, step, samples, data, loss)
        self._seq += 1
        return b'{"k":"STEP_END","rank":%d,"seq":%d,"t":%d,"step":%d,"n":%d,"data":%d,"loss":%r}\n' % head


def columns_of(shape: Shape, ranks: int = 1, nodes: int = 1, seed: int = 0) -> Columns:
    """The run as scoring sees it, read back from files as any other."""
    with tempfile.TemporaryDirectory() as folder:
        write_attempt(Path(folder), shape, ranks // nodes, [f"n{index + 1}" for index in range(nodes)], seed)
        return columns.read(Path(folder), ranks)


def write_attempt(
    folder: Path, shape: Shape, per_node: int, hosts: Sequence[str], seed: int = 0, load: Load | None = None
) -> None:
    """The folders that the agents of an attempt leave behind."""
    world = per_node * len(hosts)
    for index, host in enumerate(hosts):
        node = node_dir(folder, host, index)
        node.mkdir(parents=True)
        count = 0
        with (node / EVENTS).open("wb") as file:
            for rank in range(index * per_node, (index + 1) * per_node):
                for line in lines(shape, rank, index, world, seed):
                    file.write(line)
                    count += 1
        write_json(node / RESULT, {"schema": 1, "state": "SUCCEEDED", "events": count, "warnings": []})
        write_json(node / FACTS, {"schema": 1, "host": host, "cpu": {"threads": CORES}})
        if load is not None:
            _write_samples(node / SAMPLES, shape, load, CLOCK + round(index * shape.skew * NS), per_node, seed)


def _write_samples(file: Path, shape: Shape, load: Load, clock: int, ranks: int, seed: int) -> None:
    busy = (load.ranks_cpu * ranks + load.foreign + 0.01) / CORES
    pauses = shape.steps // shape.evaluate_every * shape.evaluate_seconds if shape.evaluate_every else 0.0
    length = INIT_SECONDS + float(step_seconds(shape, seed).sum()) + pauses
    found: list[dict[str, Any]] = [{"schema": 1, "units": {}}]
    for second in range(int(length) + 3):
        found.append(
            {
                "t": clock + second * NS,
                "cpu": busy,
                "steal": load.steal,
                "psi_cpu": load.psi_cpu,
                "psi_memory": 0.0,
                "psi_io": 0.0,
                "mem_used": 10**9,
                "energy_uj": None if load.watts is None or not load.counter else int(load.watts * second * 1e6),
                "power_w": load.watts,
                "freq_mhz": load.clocks[second % len(load.clocks)] if load.clocks else None,
                "ranks": {str(rank): {"cpu": load.ranks_cpu, "rss": 10**6} for rank in range(ranks)},
                "agent_cpu": 0.01,
            }
        )
    file.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in found))


def write_run(
    runs: Path,
    case: str,
    rounds: Sequence[Shape | None],
    *,
    hosts: Sequence[str] = (),
    load: Load | None = None,
    seed: int = 0,
    preset: str = "quick",
) -> RunDir:
    """A finished run of one case, one shape for each round; None is a round that failed.

    `case` names a real workload and as many rounds as there are shapes; its nodes are called n1, n2 … unless `hosts`
    says otherwise. Round r is made with seed `seed + r`.
    """
    names = list(hosts) or [f"n{number + 1}" for number in range(int(case.split(":")[3]))]
    site = Site(hosts=names)
    loaded = suite.single(case, preset)
    cases = suite_cases.expand(loaded, site, {})
    plan = build(loaded.suite.name, "closed", 1, cases, site, Places("python3", "/probe"), seed)
    run = rundir.create(runs, plan.suite)
    manifest = Manifest(rundir.SCHEMA, run.id, 1, "synthetic", [], plan, {"python": "3.11.0", "packages": {}})
    rundir.write_manifest(run, manifest)
    records = [journal.Record(journal.OWNER, 1, 1)]
    for ref, shape in zip(plan.order, rounds, strict=True):
        state = JobState.SUCCEEDED if shape is not None else JobState.FAILED
        begun = journal.Record(journal.ATTEMPT, 1, 1, 0, ref.round, 1)
        records += [begun, msgspec.structs.replace(begun, k=journal.ENDED, state=state, reason="made up")]
        if shape is not None:
            folder = run.attempt(plan.cases[0], ref, 1)
            write_attempt(folder, shape, (plan.cases[0].world or 1) // len(names), names, seed + ref.round, load)
    records.append(journal.Record(journal.FINISHED, 1, 1, state=JobState.SUCCEEDED))
    (run.path / journal.NAME).write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return run
