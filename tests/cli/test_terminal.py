"""On a real terminal: a line that changes, and nothing of it in the JSON."""

from __future__ import annotations

import json
import os
import pty
import subprocess

from tests.conftest import TRAINMARK, Cli


def test_live_progress_stays_out_of_the_json(cli: Cli) -> None:
    terminal, inner = pty.openpty()
    argv = [*TRAINMARK, "run", "noop:none:cpu:1:1:1@steps=20,seconds=2", "--preset", "smoke", "--json"]
    process = subprocess.Popen(argv, cwd=cli.folder, stdout=subprocess.PIPE, stderr=inner)
    os.close(inner)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    assert process.wait() == 0 and report["state"] == "SUCCEEDED"
    assert b"[1/1]" in shown and b"SUCCEEDED" in shown
