"""Runs every benchmark in turn, never two at once, and writes RESULTS.md. Exit code 1 when a bar is missed.

With names (`run_all.py nas handover`, `make perf ONLY="nas handover"`) only those, and the document is printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import machine
from lab import HERE

BENCHMARKS = (
    "noop", "first_step", "probe_event", "overhead", "exec_overhead", "sampler", "scoring", "verdicts",
    "reference_speed", "ingest", "inherit", "scale", "accept", "predict", "listing", "nas", "search_quality",
    "handover", "automl_scale",
)  # fmt: skip
DEADLINE_SECONDS = 1800
INTRODUCTION = """\
# trainmark beside its peers

Made by `make perf`. Each figure is measured side by side with the peer's, in one run, the two interleaved.
"""


def measure(name: str) -> dict[str, Any]:
    """The one JSON object of a benchmark."""
    sys.stderr.write(f"{name} …\n")
    started = time.monotonic()
    argv = [sys.executable, str(HERE / f"{name}.py")]
    said = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_SECONDS).stdout
    record: dict[str, Any] = json.loads(said)
    sys.stderr.write(f"{name}: {time.monotonic() - started:.0f} s\n")
    return record


def table(records: list[dict[str, Any]]) -> list[str]:
    lines = ["| figure | ours | peer | ratio or difference | bar | met |", "|---|---|---|---|---|---|"]
    return lines + [_line(row) for record in records for row in record["figures"]]


def _line(row: dict[str, Any]) -> str:
    theirs = f"{row['peer']} {row['theirs']:.3g} {row['unit']}" if row["peer"] else "–"
    compared = f"{row['value']:.3g} ({row['compared']})" if row["peer"] else "–"
    met = "yes" if row["met"] else "**no**"
    return f"| {row['figure']} | {row['ours']:.3g} {row['unit']} | {theirs} | {compared} | {row['bar']} | {met} |"


def document(records: list[dict[str, Any]], circumstances: list[str]) -> str:
    how = [f"- `{record['benchmark']}.py`: {record['how']}." for record in records]
    details = [f"- `{record['benchmark']}.py`: `{json.dumps(record['details'])}`" for record in records]
    parts = [[INTRODUCTION], table(records), ["", *circumstances], ["", "## How each is measured", "", *how]]
    return "\n".join(line for part in [*parts, ["", "## Details", "", *details]] for line in part) + "\n"


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.stderr.write(f"no benchmark `{unknown[0]}`; there is {', '.join(BENCHMARKS)}\n")
        return 2
    circumstances = [
        f"- machine: {machine.describe()}",
        f"- date: {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC; load average before: {machine.load()}",
        f"- versions: {machine.versions()}",
    ]
    records, broken = [], []
    for name in names or BENCHMARKS:
        try:
            records.append(measure(name))
        except (subprocess.SubprocessError, ValueError) as error:
            broken.append(f"- `{name}.py` did not give a result: {type(error).__name__}")
    if names:
        print(document(records, circumstances + broken), end="")
    else:
        (HERE / "RESULTS.md").write_text(document(records, circumstances + broken))
        print("\n".join([*table(records), *broken]))
    return 0 if not broken and all(row["met"] for record in records for row in record["figures"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
