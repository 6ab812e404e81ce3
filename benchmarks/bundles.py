"""What packing and verifying cost: a run of 10 million events and a thousand small ones, made up; and how large a
bundle of the suite `quick` is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import Any

from figures import at_most, show
from harness import OURS, Workspace, workspace
from scoring import CLUSTER, MAKE, SMALL, SMALL_RUNS

HOW = (
    "run directories with made-up events (`trainmark.testing.synthetic`), packed unsigned and verified by fresh "
    "processes; the seconds of their own clock, which others on the machine may lengthen, are beside those of the "
    "processor in the details; imports included. Findings of made-up runs do not matter here. The bundle is that of a "
    "real run of the suite `quick`"
)
PACK = """
import time
began = time.monotonic()
import json, resource, sys
from pathlib import Path
from trainmark.store.rundir import RunDir
from trainmark.trust import pack
size = 0
out = Path(sys.argv[2])
for folder in sorted(Path(sys.argv[1]).iterdir()):
    if not folder.name.startswith("."):
        size += pack.pack([RunDir(folder)], out / f"{folder.name}.tmk").bytes
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"s": time.monotonic() - began, "cpu_s": used.ru_utime + used.ru_stime,
                  "GiB": used.ru_maxrss / 2**20, "bytes": size}))
"""
VERIFY = """
import time
began = time.monotonic()
import json, resource, sys
from pathlib import Path
from trainmark.trust import verify
measured = 0
for file in sorted(Path(sys.argv[1]).glob("*.tmk")):
    measured += verify.verify(file).checks.get("measurements", 0)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"s": time.monotonic() - began, "cpu_s": used.ru_utime + used.ru_stime,
                  "GiB": used.ru_maxrss / 2**20, "measurements": measured}))
"""


def measured(place: Workspace, case: str, steps: int, count: int) -> dict[str, dict[str, Any]]:
    runs, out = place.fresh(), place.fresh()
    subprocess.run([sys.executable, "-c", MAKE, str(runs), case, str(steps), str(count)], env=place.env, check=True)
    found = {}
    for name, program, arguments in (("pack", PACK, (runs, out)), ("verify", VERIFY, (out,))):
        argv = [sys.executable, "-c", program, *map(str, arguments)]
        said = subprocess.run(argv, env=place.env, check=True, stdout=subprocess.PIPE, text=True).stdout
        found[name] = json.loads(said)
    shutil.rmtree(runs)
    shutil.rmtree(out)
    return found


def quick(place: Workspace) -> dict[str, Any]:
    """Of a run of the suite `quick`: as many files, logs and events as people have who try trainmark out."""
    runs, out = place.fresh(), place.fresh()
    command = [str(OURS / "trainmark"), "run", "quick", "--runs", str(runs)]
    # The data sets that were fetched are those of the user.
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run(
        [sys.executable, "-c", PACK, str(runs), str(out)], env=place.env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def main() -> None:
    with workspace() as place:
        large = measured(place, *CLUSTER, 1)
        small = measured(place, *SMALL, SMALL_RUNS)
        real = quick(place)
    figures = [
        at_most("10 M events: pack", "s", large["pack"]["s"], 60),
        at_most("10 M events: verify", "s", large["verify"]["s"], 60),
        at_most("10 M events: memory", "GiB", max(one["GiB"] for one in large.values()), 1.0),
        at_most("1,000 small bundles: verify", "s", small["verify"]["s"], 60),
        at_most("a bundle of the suite `quick`", "MB", real["bytes"] / 1e6, 3),
    ]
    show("bundles", HOW, figures, {"large": large, "small": small, "quick": real})


if __name__ == "__main__":
    main()
