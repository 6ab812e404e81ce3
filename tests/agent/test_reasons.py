"""Reasons: every code that an agent may write has words, and old results with text still read."""

from __future__ import annotations

import ast
from pathlib import Path

import trainmark.agent
from trainmark.agent.ending import FailedRank
from trainmark.agent.reasons import log_text, reason
from trainmark.i18n.catalogues import read
from trainmark.i18n.speaker import say
from trainmark.reasons import as_reason

# Put together from parts, or words of somebody else.
ELSEWHERE = {"command-", "rank-", "text", "emulated", "SUCCEEDED"}


def codes() -> set[str]:
    """The first argument of each call of `reason`, and each text that is chosen as one."""
    found = set()
    agent = Path(trainmark.agent.__file__).parent
    for file in [*agent.rglob("*.py"), *agent.with_name("devices").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reason":
                found |= {
                    part.value
                    for part in ast.walk(node.args[0])
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
            elif isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["code"]:
                if isinstance(node.value, ast.Call):
                    continue  # what a vendor's library returned
                found |= {
                    part.value
                    for part in ast.walk(node.value)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    return found


def test_every_code_has_words() -> None:
    ends = [FailedRank(0, 1, None), FailedRank(0, None, 9), FailedRank(0, 0, None, mute=True)]
    ends += [FailedRank(0, end.exit, end.signal, end.mute, is_command=True) for end in ends]
    composed = {end.why(named)["code"] for end in ends for named in (True, False)}
    assert (codes() - ELSEWHERE) | composed == set(read("reasons")["reasons_agent"])


def test_in_both_languages() -> None:
    why = reason("out-of-memory-log", ended=reason("rank-exited", rank=0, code=1), line="MemoryError")
    assert say(as_reason(why)) == "out of memory: rank 0 exited with code 1 and its log says: MemoryError"
    assert say(as_reason(why), "zh") == "内存不足：进程 0 退出码 1，其日志写道：MemoryError"
    assert log_text(why) == "out-of-memory-log ended=(rank-exited rank=0 code=1) line=MemoryError"


def test_text_of_an_older_version_and_of_a_damaged_file() -> None:
    assert say(as_reason("rank 0 exited with code 3"), "zh") == "rank 0 exited with code 3"
    assert as_reason("") is None
    assert say(as_reason({"arguments": 3})) == "{'arguments': 3}"
