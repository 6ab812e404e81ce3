"""Where ranks run: each in a folder of its own, with its program at hand and its environment on record."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli

PROGRAM = """
import os
import trainmark_probe as probe

probe.init(unit="things")
assert not os.path.exists("mine"), "another rank is here"
open("mine", "w").close()
assert os.path.samefile("code/main.py", __file__)
probe.finish()
"""


def test_each_rank_has_its_own(
    cli: Cli, make_workload: Callable[..., Path], make_suite: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "do-not-tell")
    monkeypatch.setenv("PLAIN_WORD", "tell")
    make_workload(PROGRAM)
    cli("run", str(make_suite("  - thing:none:cpu:1:2:1")))
    (node,) = (cli.runs / cli.run_id()).glob("*/round1/attempt1/*_noderank0")
    assert node.name.startswith(os.uname().nodename), "unique on a disk that several hosts share"
    for rank in (0, 1):
        log = (node / f"rank{rank}" / "env.log").read_text()
        assert (node / f"rank{rank}" / "mine").exists()
        assert f"LOCAL_RANK={rank}\n" in log and "PLAIN_WORD=***\n" in log and "MY_API_KEY=***\n" in log
        assert "do-not-tell" not in log
