"""CPU time of one step event: trainmark's probe beside MLPerf's logger, and logging with json.dumps."""

from __future__ import annotations

import subprocess
from pathlib import Path
from statistics import median

from event_writers import WAYS
from figures import at_most, show, spread, times_less
from harness import HERE, PACKAGE, Workspace, interleaved, peer, workspace

REPEATS = 15
EVENTS = 20_000
HOW = (
    f"user + system time of {EVENTS} events of the same content, each in the file when its call returns, "
    f"÷ {EVENTS}; median of {REPEATS} interleaved processes, all with the same interpreter"
)


def measure(place: Workspace, way: str) -> float:
    """Microseconds per event, once it is sure that every event was written."""
    file = place.fresh() / "events"
    argv = [peer("python"), str(HERE / "event_writers.py"), way, str(EVENTS), str(file)]
    env = {**place.env, "PYTHONPATH": str(PACKAGE / "probe")}
    said = subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout
    _check(file, way)
    return float(said)


def _check(file: Path, way: str) -> None:
    written = file.read_text().count("STEP_END")
    if written != EVENTS:
        raise SystemExit(f"{way} wrote {written} of {EVENTS} events")


def main() -> None:
    with workspace() as place:
        found = interleaved({way: lambda way=way: measure(place, way) for way in WAYS}, REPEATS)
    cost = {way: median(values) for way, values in found.items()}
    figures = [
        at_most("probe event, CPU time", "µs", cost["probe"], 5),
        times_less("probe event, CPU time", "µs", found["probe"], "mllog", found["mllog"], 25),
    ]
    details = {way: spread(values) for way, values in found.items()}
    details["logging ÷ probe"] = cost["logging"] / cost["probe"]
    show("probe_event", HOW, figures, details)


if __name__ == "__main__":
    main()
