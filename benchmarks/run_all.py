"""Runs every benchmark in turn, never two at once, and writes RESULTS.md. Exit code 1 when a bar is missed.

With names (`run_all.py nas handover`, `make perf ONLY="nas handover"`) only those; the others' newest runs stay.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import machine
import results
from harness import HERE

BENCHMARKS = (
    "noop", "first_step", "probe_event", "overhead", "exec_overhead", "sampler", "scoring", "verdicts",
    "statistics_rates", "shared_edges", "ssh_hosts",
    "reference_speed", "ingest", "inherit", "scale", "accept", "predict", "listing", "nas", "search_quality",
    "search_real", "handover", "automl_scale", "automl_record", "bundles", "cloud", "web", "web_pages",
)  # fmt: skip
DEADLINE_SECONDS = 1800
RESULTS = HERE / "results"


def measure(name: str) -> dict[str, Any]:
    """The one JSON object of a benchmark."""
    sys.stderr.write(f"{name} …\n")
    started = time.monotonic()
    argv = [sys.executable, str(HERE / f"{name}.py")]
    said = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_SECONDS).stdout
    record: dict[str, Any] = json.loads(said)
    sys.stderr.write(f"{name}: {time.monotonic() - started:.0f} s\n")
    return record


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.stderr.write(f"no benchmark `{unknown[0]}`; there is {', '.join(BENCHMARKS)}\n")
        return 2
    broken, fine = [], True
    for name in names or BENCHMARKS:
        around = machine.circumstances()
        try:
            record = measure(name)
        except (subprocess.SubprocessError, ValueError) as error:
            broken.append(f"- `{name}.py` did not give a result: {type(error).__name__}")
            continue
        results.keep(RESULTS, {**record, **around})
        fine = fine and all(row["met"] for row in record["figures"])
    kept = results.read(RESULTS, BENCHMARKS)
    (HERE / "RESULTS.md").write_text(results.document(kept, broken))
    print("\n".join([*results.table({name: kept[name] for name in names or kept if name in kept}), *broken]))
    return 0 if fine and not broken else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
