"""How often `trainmark accept` blames or suspects a good node, and whether it finds a slow one: 20 clean tries in a lab
of real hosts, then tries with a host slowed by a CPU quota, by 70, 10 and 5 %. Hosts share this machine's cores, so one
at a time is measured, and they go before everything else on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from figures import at_least, at_most, show
from harness import HERE, OURS

from lab import site, slowness
from lab.lab import Lab as Hosts
from lab.layout import Options

TRIES, NODES = 20, 4
# What a host gets of the one core that its program would use.
SLOWED = (0.3, 0.9, 0.95)
ONE_LOOK = ("--looks", "1")
# Of an acceptance with a slowed host; a verdict that needs longer says what it is blind to.
SLOW_TIME = "3m"
SUITE = str(HERE / "workloads" / "accept.yaml")
HOW = (
    f"{TRIES} runs of `trainmark accept --one-at-a-time` on a clean lab of {NODES} real hosts, 5 blocks and one look, "
    f"rounds of less than a second; then one of up to {SLOW_TIME} each with a host that gets {SLOWED} cores"
)


def attempt(folder: Path, hosts: Hosts, *more: str) -> dict[str, Any]:
    """The verdict of one acceptance, whatever it is."""
    (folder / "site.yaml").write_text(json.dumps(site.content(hosts.layout)))
    words = ["accept", "--site", "site.yaml", "--case", SUITE, "--one-at-a-time", "--no-links", *more]
    argv = [str(OURS / "trainmark"), *words, "--runs", "runs", "--json"]
    done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    hosts = Hosts.make(Options(name=f"accept{os.getpid()}", nodes=NODES), install=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            slowness.ahead(hosts)
            clean = [attempt(Path(folder), hosts, *ONE_LOOK) for _ in range(TRIES)]
            slow = {}
            for cores in SLOWED:
                slowness.slow_host(hosts, "node2", cores)
                slow[cores] = attempt(Path(folder), hosts, "--time", SLOW_TIME)
    finally:
        hosts.down()
    words = Counter(one["word"] for found in clean for one in found["nodes"])
    alarms = sum(any(one["word"] in ("bad", "suspect") for one in found["nodes"]) for found in clean)
    figures = [at_most(f"good hosts blamed or suspected in {TRIES} clean acceptances", "alarms", float(alarms), 0)]
    for cores, found in slow.items():
        loss = 1 - cores
        # A noisy machine may hide a small loss, which is no fault as long as the verdict says so.
        told = found["drain"] == ["node2"] or (not found["drain"] and found["findable"] > loss)
        name = f"a host slowed by {100 * loss:.0f} % is named and nobody else, or the verdict is blind to it"
        figures.append(at_least(name, "times", float(told), 1))
    findable = [one["findable"] for found in clean for one in found["nodes"]]
    named = {str(cores): [found["drain"], found["findable"]] for cores, found in slow.items()}
    details = {"verdicts": dict(words), "could_find": [min(findable), max(findable)], "drained_and_could_find": named}
    show("accept", HOW, figures, details)


if __name__ == "__main__":
    main()
