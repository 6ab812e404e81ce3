"""On a real terminal: a line that changes, and nothing of it in the JSON."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.conftest import TRAINMARK, Cli
from trainmark.cli import terminal
from trainmark.cli.main import main
from trainmark.store.rundir import node_dir
from trainmark.testing.synthetic import Shape, write_run


def test_live_progress_stays_out_of_the_json(cli: Cli) -> None:
    outer, inner = pty.openpty()
    argv = [*TRAINMARK, "run", "noop:none:cpu:1:1:1@steps=20,seconds=2", "--preset", "smoke", "--json"]
    process = subprocess.Popen(argv, cwd=cli.folder, stdout=subprocess.PIPE, stderr=inner)
    os.close(inner)
    shown = b""
    while True:
        try:
            part = os.read(outer, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    assert process.stdout is not None
    report = json.loads(process.stdout.read())
    assert process.wait() == 0 and report["state"] == "SUCCEEDED"
    assert b"[1/1]" in shown and b"SUCCEEDED" in shown


def test_control_characters_of_logs_and_messages_never_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, "noop:none:cpu:1:1:1", [Shape()])
    plan = run.manifest().plan
    folder = node_dir(run.attempt(plan.cases[0], plan.order[0], 1), "n1", 0)
    (folder / "rank0.out.log").write_text("loss 1\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt.exe\tend\r\n")
    assert main(["logs", "--runs", str(tmp_path)]) == 0
    assert main(["report", "\x1b[31mred", "--runs", str(tmp_path)]) == 2
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert not set("\x1b\x07\x9b\u202e\r") & set(text), repr(text)
    assert "loss 1\ufffd]0;owned" in said.out and "txt.exe\tend\n" in said.out and "[31mred" in said.err


def test_every_verb_speaks_through_the_one_function() -> None:
    """A verb that wrote to a stream itself could pass on whatever a name or a log holds."""
    folder = Path(terminal.__file__).parent
    found = [
        f"{file.name}:{node.lineno}"
        for file in sorted(folder.rglob("*.py"))
        if file.name != "terminal.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write")
    ]
    assert found == []
