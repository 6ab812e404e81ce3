"""How often `trainmark accept` blames a good node, and whether it finds a slow one: 20 clean tries in a lab of real
hosts, then one try with a host slowed by a CPU quota. Hosts share this machine's cores, so one at a time is measured,
and they go before everything else on it.
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

TRIES, NODES, CORES = 20, 3, 0.3
SUITE = str(HERE / "workloads" / "accept.yaml")
HOW = (
    f"{TRIES} runs of `trainmark accept --one-at-a-time` on a clean lab of {NODES} real hosts, 5 blocks and one look, "
    f"rounds of less than a second; then one with a host that gets {CORES} cores"
)


def attempt(folder: Path, hosts: Hosts) -> dict[str, Any]:
    """The verdict of one acceptance, whatever it is."""
    (folder / "site.yaml").write_text(json.dumps(site.content(hosts.layout)))
    words = ["accept", "--site", "site.yaml", "--case", SUITE, "--one-at-a-time", "--no-links", "--looks", "1"]
    argv = [str(OURS / "trainmark"), *words, "--runs", "runs", "--json"]
    done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    hosts = Hosts.make(Options(name=f"accept{os.getpid()}", nodes=NODES), install=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            slowness.ahead(hosts)
            clean = [attempt(Path(folder), hosts) for _ in range(TRIES)]
            slowness.slow_host(hosts, "node2", CORES)
            slow = attempt(Path(folder), hosts)
    finally:
        hosts.down()
    alarms = sum(bool(found["drain"]) for found in clean)
    words = Counter(one["word"] for found in clean for one in found["nodes"])
    named = float(slow["drain"] == ["node2"])
    figures = [
        at_most(f"false alarms in {TRIES} clean acceptances", "alarms", float(alarms), 0),
        at_least("the slowed host, and nobody else, is named", "times", named, 1),
    ]
    findable = [one["findable"] for found in clean for one in found["nodes"]]
    details = {"verdicts": dict(words), "could_find": [min(findable), max(findable)], "slow": slow["nodes"]}
    show("accept", HOW, figures, details)


if __name__ == "__main__":
    main()
