"""How long large folders take: listing 10,000 runs, and comparing two runs of 1,000 cases each."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median

from figures import at_most, show, spread
from harness import OURS, Spent, Workspace, workspace

RUNS = 10_000
CASES = 1_000
REPEATS = 5
COLD_REPEATS = 3
HOW = (
    "made-up runs (`trainmark.testing.synthetic`): `trainmark list -n 0` over 10,000 and `trainmark compare` of two "
    "with 1,000 cases of 3 rounds each, whose speeds differ by up to 6 % and spread by 0.2 to 3 %, as commands, "
    "imports included; medians. Warm is what a user meets: the reports of both runs were kept when the runs ended or "
    "when they were first looked at. Cold is that first look, at runs made elsewhere, which scores 6,000 rounds from "
    "their raw events; wall time of both, and CPU time of the command in the details"
)
# A few runs are made, and copied: under many names, and with their cases under many names.
MAKE = """
import math, random, shutil, sys
from pathlib import Path
import msgspec
from trainmark.plan.records import RoundRef
from trainmark.store import journal, rundir
from trainmark.testing.synthetic import Shape, write_run

folder, runs, cases = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(1)
def shapes():
    level, spread = 0.2 * draw.uniform(0.97, 1.03), draw.uniform(0.002, 0.03)
    return [Shape(steps=120, seconds=level * math.exp(draw.gauss(0, spread)), noise=0.02) for _ in range(3)]
models = [write_run(folder / ("model%d" % n), "noop:none:cpu:1:1:3", shapes()) for n in range(40)]
model = models[0]
for number in range(runs):
    copy = folder / "long" / ("run%05d" % number)
    copy.mkdir(parents=True)
    for name in (rundir.MANIFEST, journal.NAME):
        shutil.copyfile(model.path / name, copy / name)
manifest, records = model.manifest(), journal.read(model.path).records
case, replace = manifest.plan.cases[0], msgspec.structs.replace
names = ["w%d:none:cpu:1:1:3" % number for number in range(cases)]
blocks = tuple(tuple(RoundRef(index, number) for index in range(cases)) for number in (1, 2, 3))
plan = replace(manifest.plan, cases=tuple(replace(case, case=name) for name in names), blocks=blocks)
for name in ("a", "b"):
    run = rundir.RunDir(folder / "wide" / name)
    run.path.mkdir(parents=True)
    rundir.write_manifest(run, replace(manifest, run=name, plan=plan))
    lines = [records[0], *(replace(one, case=index) for index in range(cases) for one in records[1:-1]), records[-1]]
    (run.path / journal.NAME).write_bytes(b"".join(msgspec.json.encode(line) + b"\\n" for line in lines))
    for one in plan.cases:
        shutil.copytree(draw.choice(models).path / case.id.dir_name(), run.path / one.id.dir_name())
"""


def spent(place: Workspace, *argv: str) -> Spent:
    return place.spend([str(OURS / "trainmark"), *argv], place.fresh())


def main() -> None:
    with workspace() as place:
        folder = place.fresh()
        subprocess.run([sys.executable, "-c", MAKE, str(folder), str(RUNS), str(CASES)], env=place.env, check=True)
        listing = ["list", "-n", "0", "--runs", str(folder / "long")]
        comparing = ["compare", "a", "b", "--runs", str(folder / "wide")]
        first = {"list": spent(place, *listing), "compare": spent(place, *comparing)}
        lists = [spent(place, *listing) for _ in range(REPEATS)]
        compares = [spent(place, *comparing) for _ in range(REPEATS)]
        cold = [first["compare"]]
        for _ in range(COLD_REPEATS - 1):
            shutil.rmtree(Path(place.env["TRAINMARK_CACHE"]) / "reports")
            cold.append(spent(place, *comparing))
    figures = [
        at_most("list 10,000 runs", "s", median(one.wall for one in lists), 0.3),
        at_most("compare two runs of 1,000 cases, warm", "s", median(one.wall for one in compares), 2.0),
        at_most("compare two runs of 1,000 cases, cold", "s", median(one.wall for one in cold), 20.0),
    ]
    details = {
        "list, first": _both([first["list"]]),
        "list": _both(lists),
        "warm": _both(compares),
        "cold": _both(cold),
    }
    show("listing", HOW, figures, details)


def _both(found: list[Spent]) -> dict[str, object]:
    return {"wall": spread([one.wall for one in found]), "cpu": spread([one.cpu for one in found])}


if __name__ == "__main__":
    main()
