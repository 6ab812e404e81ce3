"""An honest run, made up: what agents and ranks of a real one leave behind, with clocks and tokens that agree."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec

from trainmark.agent.digests import of_folder
from trainmark.store import digests, journal, rundir, series
from trainmark.store.rundir import RunDir
from trainmark.testing.synthetic import NS, Load, Shape, write_run
from trainmark.trust import keys, pack

WALL = 1_790_000_000 * NS
CASE = "resnet50:pytorch:cpu:1:2:3"
SHAPE = Shape(steps=200, seconds=0.15, samples=4, noise=0.03, memory=0.2, warmup=5)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def change_json(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def nodes(run: RunDir) -> list[Path]:
    return sorted(run.path.glob("*/round*/attempt*/*noderank*"))


def honest_run(runs: Path, *, number: int = 1, seed: int = 7, shape: Shape = SHAPE, case: str = CASE) -> RunDir:
    """The `number`-th run of its series."""
    run = write_run(runs, case, [shape] * 3, load=Load(watts=200.0, counter=False), seed=seed, preset="smoke")
    manifest = json.loads((run.path / rundir.MANIFEST).read_text())
    place = None
    for count in range(number):
        name = run.id if count == number - 1 else f"earlier-{count}"
        place = series.join(runs, name, run.manifest().plan, WALL)
    manifest.update(created=WALL, series=msgspec.to_builtins(place))
    manifest["provenance"].update(host="n1", facts=_facts(), packages={"msgspec": "0.0.1"})
    (run.path / rundir.MANIFEST).write_text(json.dumps(manifest))
    draw = random.Random(seed)
    records, now = [journal.Record(journal.OWNER, 1, WALL + NS, host="n1", pid=1)], WALL + 2 * NS
    for round_number, node in sorted((int(node.parts[-3][5:]), node) for node in nodes(run)):
        token = f"{draw.getrandbits(128):032x}"
        seconds = _node(node, token, round_number, run.manifest().plan.cases[0].params, draw, now)
        about = {"case": 0, "round": round_number, "attempt": 1}
        records.append(journal.Record(journal.ATTEMPT, 1, now, token=token, **about))
        now += int((seconds + 0.5) * NS)
        records.append(journal.Record(journal.ENDED, 1, now, state="SUCCEEDED", reason="made up", **about))
    records.append(journal.Record(journal.FINISHED, 1, now, state="SUCCEEDED"))
    journal.write(run.path, records)
    return RunDir(run.path)


def _facts() -> dict[str, Any]:
    return {"schema": 1, "host": "n1", "cpu": {"model": "Made Up 9000", "threads": 4}, "memory_bytes": 2**34}


def _node(node: Path, token: str, number: int, params: dict[str, Any], draw: random.Random, wall: int) -> float:
    """Makes the records of a node agree with its events; returns how long they lasted. `wall`: when it began."""
    events, later = lines(node / rundir.EVENTS), 100 * number * NS
    for event in events:
        event["t"] += later
        if event["k"] == "STEP_END":
            event["loss"] += draw.gauss(0, 0.02)
            event["t"] += draw.randrange(20_000)
        if event["k"] == "INIT_START":
            event.update(host="n1", wall=wall)
    write_lines(node / rundir.EVENTS, events)
    samples = lines(node / rundir.SAMPLES)
    for sample in samples[1:]:
        sample["t"] += later
        sample["steps"] = {}
        for rank in (0, 1):
            seen = [
                one["step"]
                for one in events
                if one["k"] == "STEP_END" and one["rank"] == rank and one["t"] <= sample["t"]
            ]
            if seen:
                sample["steps"][str(rank)] = seen[-1]
        sample["power_w"] += draw.gauss(0, 5)
    write_lines(node / rundir.SAMPLES, samples)
    seconds = (max(event["t"] for event in events) - min(event["t"] for event in events)) / NS + 0.3
    counted = [
        {"rank": rank, "steps": len(steps), "samples": sum(one["n"] for one in steps)}
        for rank in (0, 1)
        for steps in [[one for one in events if one["k"] == "STEP_END" and one["rank"] == rank]]
    ]
    times = {"started": wall, "ended": wall + int(seconds * NS), "duration": seconds}
    change_json(node / rundir.RESULT, token=token, ranks=counted, **times)
    (node / rundir.FACTS).write_text(json.dumps(_facts()))
    (node / rundir.CLAIM).write_text(
        json.dumps({"schema": 1, "host": "n1", "boot_id": "b", "start_ticks": number, "token": token})
    )
    (node / "config.json").write_text(json.dumps({"seed": number, "params": params}))
    (node / "rank0.out.log").write_text("step 1: loss 2\n")
    (node / "rank0").mkdir()
    (node / "rank0" / "env.log").write_text("OMP_NUM_THREADS=2\n")
    return seconds


def seal(run: RunDir) -> None:
    """The digests that agents and controllers write, of the run as it is now."""
    for node in nodes(run):
        if (node / rundir.RESULT).is_file():
            change_json(node / rundir.RESULT, files=of_folder(str(node), {}))
    records = lines(run.path / journal.NAME)
    for record in records:
        if record["k"] == journal.OWNER:
            record["digest"] = digests.manifest_digest(run.path)
        if record["k"] == journal.ENDED:
            attempt = next(run.path.glob(f"*/round{record['round']}/attempt{record['attempt']}"), None)
            record["digest"] = "0" * 64 if attempt is None else digests.attempt_digest(attempt)
    write_lines(run.path / journal.NAME, records)


def packed(run: RunDir, path: Path, key: str = "maker", *, sealed: bool = True, **options: Any) -> Path:
    """A forger who has the whole run writes digests that agree, as an honest maker has them."""
    if sealed:
        seal(run)
    if key not in {one.name for one in keys.listed()}:
        keys.create(key)
    pack.pack([run], path, key=keys.load(key), **options)
    return path
