"""`trainmark bisect` in a real repository of somebody's own code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Cli

pytestmark = pytest.mark.slow

# Tells a step time that depends on the revision, with a spread of its own.
TRAIN = """
import random
pace = {pace}
for step in range(1, 61):
    print("step %d took %.6f s" % (step, pace * random.lognormvariate(0, 0.003)))
"""
SUITE = """
schema: 1
name: mine
window: {{skip: 10, steps: 40}}
cases:
  - command: [{python}, -u, code/train.py]
    pattern: 'step (?P<step>\\d+) took (?P<seconds>[\\d.]+) s'
    batch: 8
"""


def git(repo: Path, *argv: str) -> str:
    who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.com"]
    done = subprocess.run(["git", "-C", str(repo), *who, *argv], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def repository(folder: Path, paces: list[str]) -> list[str]:
    """A commit for each pace; what is no number is a program that breaks."""
    repo = folder / "repo"
    (repo / "code").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", "repo")
    (repo / "suite.yaml").write_text(SUITE.format(python=sys.executable))
    commits = []
    for number, pace in enumerate(paces):
        (repo / "code" / "train.py").write_text(TRAIN.format(pace=pace) + f"# {number}\n")
        git(repo, "add", "code")
        git(repo, "commit", "-qm", f"change {number}")
        commits.append(git(repo, "rev-parse", "HEAD"))
    return commits


def test_the_slow_commit_is_found_past_a_broken_one(cli: Cli) -> None:
    commits = repository(cli.folder, ["0.25", "0.25", "0.25", "1 / 0", "0.28", "0.28"])
    repo = cli.folder / "repo"
    (repo / "code" / "train.py").write_text("raise SystemExit('work in progress')\n")
    found = cli.json("bisect", "--good", commits[0], "--bad", "main", "repo/suite.yaml")
    # The broken one lies just before the first that is known to be slow: it may have been that one.
    assert found["commit"] == commits[4] and found["also"] == [commits[3]]
    assert found["verdict"]["word"] == "slower" and found["unsure"] == []
    assert (
        git(repo, "worktree", "list").count("\n") == 0 and git(repo, "status", "--short", "code") == "M code/train.py"
    )
    text = cli("bisect", "--good", commits[1], "--bad", commits[4], "repo/suite.yaml").stdout
    assert "first slow commit" in text and "change 4" in text


def test_bad_words(cli: Cli) -> None:
    commits = repository(cli.folder, ["0.25", "0.25"])

    def said(good: str, bad: str, suite: str = "repo/suite.yaml", code: int = 2) -> str:
        done = cli("bisect", "--good", good, "--bad", bad, suite, code=code)
        return done.stderr if code == 2 else done.stdout

    assert "no such revision" in said("nosuch", "main")
    assert "are the same commit" in said("main", "main")
    assert "no ancestor" in said(commits[1], commits[0])
    (cli.folder / "alone.yaml").write_text((cli.folder / "repo" / "suite.yaml").read_text())
    assert "no git work tree" in said("main", "main", "alone.yaml")
    assert "no slow commit: bad is not slower than good: within" in said(commits[0], commits[1], code=1)
