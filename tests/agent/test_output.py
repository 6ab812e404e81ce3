"""Output without end: cut at a stated size, with its beginning and its newest part kept, and said so."""

from __future__ import annotations

import os
from pathlib import Path

from trainmark.agent.events.reader import LineReader
from trainmark.agent.node_plan import RankPlan
from trainmark.agent.output import OutputLimit
from trainmark.agent.ranks import Rank
from trainmark.agent.relay.attempt import WatchedAttempt


def test_a_log_that_grows_too_large_begins_again(tmp_path: Path) -> None:
    log = tmp_path / "rank0.out.log"
    rank = Rank(RankPlan({"rank": 0, "argv": ["x"]}), str(log))
    limit, reader = OutputLimit([rank], most=1000), LineReader(str(log))
    sent: list[tuple[dict[str, object], bytes]] = []
    relay = WatchedAttempt(lambda header, data: sent.append((header, data)), {"dir": str(tmp_path), "token": "t"}, {})
    writer = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(writer, b"the first line\n" * 100)
    assert reader.take().count(b"\n") == 100
    relay._send_grown(log.name)
    limit.look()
    os.write(writer, b"the newest line\n")
    os.close(writer)
    assert (tmp_path / "rank0.out.first.log").read_bytes() == b"the first line\n" * 100
    text = log.read_text()
    assert "1500 bytes of output were dropped here" in text and text.endswith("the newest line\n")
    assert reader.take().endswith(b"the newest line\n"), "whoever follows it goes on"
    relay._send_grown(log.name)
    assert sent[-1][0]["again"] and sent[-1][1] == log.read_bytes(), "and so does the copy on another host"
    (warning,) = limit.warnings()
    assert warning["arguments"]["bytes"] == 1500


def test_logs_read_the_end_without_the_beginning(tmp_path: Path) -> None:
    from trainmark.store.logs import Follower, last_lines

    log = tmp_path / "large.log"
    with log.open("wb") as out:
        out.truncate(4 << 30)  # a hole: reading all of it would take the memory
        out.seek(0, os.SEEK_END)
        out.write(b"\nlast but one\nlast\n")
    assert last_lines(log, 2) == [b"last but one", b"last"]
    assert list(Follower(log, last=1).lines(final=True)) == ["last"]
