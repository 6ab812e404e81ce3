"""Somebody stops a process of a round (SIGSTOP) and never continues it: the round is lost, and goes on by `resume`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli
from tests.faults.conftest import wait_for
from trainmark.i18n.speaker import say

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize(
    ("who", "containment", "said"),
    [
        ("agent", "auto", "no sign of life for"),
        ("agent", "subreaper", "no sign of life for"),
        ("rank", "auto", "rank 0 was stopped by a signal (SIGSTOP)"),
    ],
)
def test_a_frozen_process_is_lost(
    cli: Cli,
    misbehave: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    who: str,
    containment: str,
    said: str,
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(f"schema: 1\ncontainment: {containment}\nlauncher: {{name: local, lost_seconds: 3}}\n")
    monkeypatch.setenv("STEPS", "1000")
    suite = misbehave("none", procs=1, extra="retries: 0\ndeadlines: {step: 600, stop: 1}", alone=True)
    process = cli.start("run", str(suite), "--site", str(site))
    wait_for(lambda: b"STEP_END" in _events(cli), process=process)
    os.kill(_pid(cli, who, containment), signal.SIGSTOP)
    process.communicate(timeout=120)
    (case,) = json.loads(cli("report", cli.run_id(), "--format", "json").stdout)["cases"]
    assert (process.returncode, case["state"]) == (1, "LOST") and say(case["reason"]).startswith(said), case
    monkeypatch.setenv("STEPS", "3")
    cli("resume", cli.run_id())
    (case,) = json.loads(cli("report", cli.run_id(), "--format", "json").stdout)["cases"]
    assert case["state"] == "SUCCEEDED"


def _events(cli: Cli) -> bytes:
    return b"".join(file.read_bytes() for file in cli.runs.glob("*/*/round1/attempt1/*/events.jsonl"))


def _pid(cli: Cli, who: str, containment: str) -> int:
    (folder,) = cli.runs.glob("*/*/round1/attempt1/*_noderank0")
    if who == "rank":
        return int(json.loads((folder / "status.json").read_text())["ranks"][0]["pid"])
    top = int(json.loads((folder / "agent.json").read_text())["pid"])
    # The process that works is below a guardian where the kernel does not contain it.
    children = Path(f"/proc/{top}/task/{top}/children").read_text().split()
    return int(children[0]) if containment == "subreaper" else top
