"""Files of a finished run that changed afterwards, by a failing disk or by a hand: every single byte is noticed."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.harness import Node
from tests.conftest import Cli
from trainmark.agent import digests as node_digests
from trainmark.report import build
from trainmark.run import session
from trainmark.store import digests
from trainmark.store.rundir import RunDir


@pytest.fixture
def finished(cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path]) -> RunDir:
    """A real run of one round."""
    make_workload(
        "from speaker import *\nbegin()\nfirst = time.monotonic_ns()\n"
        "for n in range(60): step(n + 1, loss=1.0 / (n + 1), t=first + n * 500_000_000)\n"
        "say('FINISHED', t=first + 60 * 500_000_000)\nprint('hi')\n"
    )
    lib = cli.folder / "workloads" / "thing"
    (lib / "speaker.py").write_text(Node(cli.folder).root.joinpath("lib/speaker.py").read_text())
    cli("run", str(make_suite("  - thing:none:cpu:1:1:1")), "--no-check", code=None)
    return RunDir(cli.runs / cli.run_id())


def attempt_of(run: RunDir) -> tuple[Path, str | None]:
    state = session.state_of(run, run.manifest().plan)
    (ref, round_), *_ = state.rounds.items()
    last = round_.last()
    assert last is not None
    return run.attempt(state.plan.cases[0], ref, last.number), last.digest


def test_every_flipped_byte_is_seen(finished: RunDir) -> None:
    attempt, digest = attempt_of(finished)
    assert digest and digests.changes(attempt, digest) == []
    (node,) = (path for path in attempt.iterdir() if path.is_dir())
    result = json.loads((node / "result.json").read_text())
    covered = {"events.jsonl", "samples.jsonl", "facts.json", "agent.json", "config.json", "rank0.out.log"}
    assert covered <= set(result["files"]) and "rank0/env.log" in result["files"]
    chance = random.Random(16)
    for name in ("events.jsonl", "result.json", "samples.jsonl", "facts.json"):
        file = node / name
        whole = file.read_bytes()
        for _ in range(400 if name == "events.jsonl" else 60):
            at, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
            file.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            assert digests.changes(attempt, digest), f"{name}: bit {bit} of byte {at}"
        file.write_bytes(whole)
        assert digests.changes(attempt, digest) == []


def test_reports_comparisons_and_exports_say_so(cli: Cli, finished: RunDir) -> None:
    other = cli.runs / "20990101-000000-suite-ffff"
    shutil.copytree(finished.path, other)
    assert not [one for case in build.build(RunDir(other)).cases for one in case.runs if one.changed]
    (events,) = other.rglob("events.jsonl")
    events.write_bytes(events.read_bytes().replace(b'"n":4', b'"n":5', 1))
    assert "CHANGED" in cli("report", other.name).stdout
    assert "CHANGED" in cli("compare", finished.id, other.name, "--force", code=None).stdout
    said = cli("export", "csv", other.name, "-o", str(cli.folder / "out.csv"))
    assert "is not what the agent wrote" in said.stderr and (cli.folder / "out.csv").exists()
    assert "文件在结束后被改动" in cli("report", other.name, "--lang", "zh").stdout
    events.unlink()
    assert "is gone" in cli("report", other.name).stdout


def test_a_changed_manifest_is_named(cli: Cli, finished: RunDir) -> None:
    manifest = finished.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"seed"', b'"seed" ', 1))
    assert "is not what it was when the run was worked on" in cli("report").stdout


def test_events_are_hashed_while_they_are_shipped_and_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(tmp_path)
    result = node.ranks(node.script("begin()\nstep(1)\nstep(2)\n")).run()
    events = node.dir / "events.jsonl"
    assert result["files"]["events.jsonl"] == {
        "bytes": events.stat().st_size,
        "sha256": node_digests.of_file(str(events)),
    }
    monkeypatch.setattr(node_digests, "MOST_BYTES", 10)
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "large").write_bytes(b"x" * 11)
    assert node_digests.of_folder(str(tmp_path / "many"), {}) == {"large": {"bytes": 11, "sha256": None}}


def test_what_was_found_is_kept_while_size_and_times_hold(finished: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "CACHE_FROM", 1)
    attempt, digest = attempt_of(finished)
    assert digests.changes(attempt, digest) == []
    read: list[str] = []
    monkeypatch.setattr(digests, "of_file", lambda path: read.append(path) or node_digests.of_file(path))
    assert digests.changes(attempt, digest) == []
    assert {Path(path).name for path in read} == {"result.json"}
