"""How long large folders take: listing 10,000 runs, and comparing two runs of 1,000 cases each."""

from __future__ import annotations

import subprocess
import sys
import time

from figures import at_most, show, spread
from lab import OURS, Lab, lab

RUNS = 10_000
CASES = 1_000
REPEATS = 5
HOW = (
    "made-up runs (`trainmark.testing.synthetic`): `trainmark list -n 0` over 10,000 and `trainmark compare` of two "
    "with 1,000 cases of 3 rounds each, as commands, imports included; medians, after a first call that fills the "
    "index and keeps the reports; that first call is in the details"
)
# One run is made, and copied: under many names, and with its case under many names.
MAKE = """
import shutil, sys
from pathlib import Path
import msgspec
from trainmark.plan.records import RoundRef
from trainmark.store import journal, rundir
from trainmark.testing.synthetic import Shape, write_run

folder, runs, cases = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
model = write_run(folder / "model", "noop:none:cpu:1:1:3", [Shape(steps=120, seconds=0.2, noise=0.02)] * 3)
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
        shutil.copytree(model.path / case.id.dir_name(), run.path / one.id.dir_name())
"""


def seconds(place: Lab, *argv: str) -> float:
    began = time.monotonic()
    subprocess.run([str(OURS / "trainmark"), *argv], env=place.env, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main() -> None:
    with lab() as place:
        folder = place.fresh()
        subprocess.run([sys.executable, "-c", MAKE, str(folder), str(RUNS), str(CASES)], env=place.env, check=True)
        listing = ["list", "-n", "0", "--runs", str(folder / "long")]
        comparing = ["compare", "a", "b", "--runs", str(folder / "wide")]
        first = {"list": seconds(place, *listing), "compare": seconds(place, *comparing)}
        lists = [seconds(place, *listing) for _ in range(REPEATS)]
        compares = [seconds(place, *comparing) for _ in range(REPEATS)]
    figures = [
        at_most("list 10,000 runs", "s", sorted(lists)[REPEATS // 2], 0.3),
        at_most("compare two runs of 1,000 cases", "s", sorted(compares)[REPEATS // 2], 2.0),
    ]
    show("listing", HOW, figures, {"first": first, "list": spread(lists), "compare": spread(compares)})


if __name__ == "__main__":
    main()
