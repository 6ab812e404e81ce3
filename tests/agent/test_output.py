"""Output without end: cut at a stated size, with its beginning and its newest part kept, and said so."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from trainmark.agent.ending import last_lines
from trainmark.agent.events.reader import LineReader
from trainmark.agent.node_plan import RankPlan
from trainmark.agent.output import OutputLimit
from trainmark.agent.ranks import Rank
from trainmark.agent.relay.attempt import WatchedAttempt
from trainmark.store.logs import Follower
from trainmark.store.logs import last_lines as last_lines_of
from trainmark.web.service import logs


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


def test_the_last_words_before_a_cut_are_kept(tmp_path: Path) -> None:
    """A program that prints without end and then fails: why it failed may be the last thing that was cut."""
    log = tmp_path / "rank0.out.log"
    limit = OutputLimit([Rank(RankPlan({"rank": 0, "argv": ["x"]}), str(log))], most=1000)
    for number in (1, 2):
        log.write_bytes(b"noise\n" * 500 + b"why it failed: %d\n" % number)
        limit.look()
    assert last_lines(str(log))[-2] == "why it failed: 2"
    assert (tmp_path / "rank0.out.last.log").read_bytes().endswith(b"why it failed: 2\n")
    assert b"why it failed: 1" in (tmp_path / "rank0.out.first.log").read_bytes()
    (tmp_path / "rank0.out.last.log").unlink()
    (tmp_path / "rank0.out.last.log").mkdir()  # whatever keeps it from being written
    log.write_bytes(b"x" * 1001)
    limit.look()
    assert log.stat().st_size < 1000, "the log is cut all the same"


def test_a_copy_of_a_log_that_began_again_is_whole_in_the_end(tmp_path: Path) -> None:
    """Between two looks of the relay it was cut, and grew beyond what had been sent."""
    log, copy = tmp_path / "rank0.out.log", bytearray()

    def take(header: dict[str, object], data: bytes) -> None:
        if header.get("name") == log.name:
            if header["again"]:
                copy.clear()
            assert header["at"] == len(copy)
            copy.extend(data)

    relay = WatchedAttempt(take, {"dir": str(tmp_path), "token": "t"}, {})
    log.write_bytes(b"old\n" * 300)
    relay._send_new()
    OutputLimit([Rank(RankPlan({"rank": 0, "argv": ["x"]}), str(log))], most=1000).look()
    with log.open("ab") as out:
        out.write(b"new\n" * 500)
    relay._send_new()
    relay._send_new(final=True)
    assert bytes(copy) == log.read_bytes()


def test_logs_go_on_when_a_log_begins_again(tmp_path: Path) -> None:
    log = tmp_path / "rank0.out.log"
    log.write_bytes(b"old\n" * 300)
    follower, seen = Follower(log), {0: 0}
    assert len(list(follower.lines(final=False))) == 300 and logs.following({0: log}, seen, final=False)
    log.write_bytes(b"dropped\nnew\n")
    assert list(follower.lines(final=False)) == ["dropped", "new"]
    assert [piece.text for piece in logs.following({0: log}, seen, final=False)] == ["dropped\nnew\n"]


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 6, 9])
def test_last_lines_of_a_short_log(tmp_path: Path, count: int, end: bytes) -> None:
    log = tmp_path / "short.log"
    log.write_bytes(b"a\n\nb\nc\nd" + end)
    wanted = ["a", "", "b", "c", "d"][max(0, 5 - count) :] if count else []
    assert list(Follower(log, last=count).lines(final=True)) == wanted
    assert last_lines_of(log, count) == [line.encode() for line in wanted]


def test_many_last_lines_are_not_in_memory_at_once(tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    log.write_bytes(b"a line of forty bytes, with its end on it\n" * 400_000)
    tracemalloc.start()
    shown = sum(1 for _ in Follower(log, last=300_000).lines(final=True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert shown == 300_000 and peak < 4 << 20


def test_logs_read_the_end_without_the_beginning(tmp_path: Path) -> None:
    log = tmp_path / "large.log"
    with log.open("wb") as out:
        out.truncate(4 << 30)  # a hole: reading all of it would take the memory
        out.seek(0, os.SEEK_END)
        out.write(b"\nlast but one\nlast\n")
    assert last_lines_of(log, 2) == [b"last but one", b"last"]
    assert list(Follower(log, last=1).lines(final=True)) == ["last"]
