"""Shipping: whole lines, each once, whatever was cut off where."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.agent.events.reader import EventStream
from trainmark.agent.events.shipper import Shipper, complete


def line(rank: int, seq: int, kind: str = "STEP_END", **more: object) -> bytes:
    event = {"k": kind, "rank": rank, "seq": seq, "t": 1000 + seq, **more}
    return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def keys(folder: Path) -> list[tuple[int, int]]:
    events = [json.loads(text) for text in (folder / "events.jsonl").read_bytes().splitlines()]
    return [(event["rank"], event["seq"]) for event in events]


@contextmanager
def node_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "spool").mkdir()
        yield folder


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_complete_brings_each_event_once(data: st.DataObject) -> None:
    """Any shipped prefix, any cut of events.jsonl and of the spools, and being cut off itself: always the same end."""
    counts = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=3), label="events per rank")
    with node_folder() as folder:
        shipped = b""
        for rank, count in enumerate(counts):
            lines = [line(rank, seq, n=4, step=seq) for seq in range(count)]
            torn = data.draw(st.integers(0, 20), label="bytes of a torn event in the spool")
            (folder / "spool" / f"rank{rank}.jsonl").write_bytes(b"".join(lines) + line(rank, count)[:torn])
            done = data.draw(st.integers(0, count), label="events shipped before")
            shipped += b"".join(lines[:done])
        cut = data.draw(st.integers(0, min(len(shipped), 60)), label="bytes lost of events.jsonl")
        (folder / "events.jsonl").write_bytes(shipped[: len(shipped) - cut])
        kept = shipped[: len(shipped) - cut].count(b"\n")
        spools = {path.name: path.read_bytes() for path in (folder / "spool").iterdir()}

        assert complete(str(folder)) == sum(counts) - kept
        wanted = sorted((rank, seq) for rank, count in enumerate(counts) for seq in range(count))
        assert sorted(keys(folder)) == wanted
        assert not (folder / "spool").exists()
        assert complete(str(folder)) == 0

        # As if it had been killed after writing (and after a part of it): the spool is still there.
        whole = (folder / "events.jsonl").read_bytes()
        back = data.draw(st.integers(0, min(len(whole), 60)), label="bytes lost of the completed file")
        (folder / "events.jsonl").write_bytes(whole[: len(whole) - back])
        (folder / "spool").mkdir()
        for name, content in spools.items():
            (folder / "spool" / name).write_bytes(content)
        complete(str(folder))
        assert sorted(keys(folder)) == wanted


def test_complete_passes_over_lines_that_are_no_events(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "rank0.jsonl").write_bytes(line(0, 0) + b"not json\n[1]\n{}\n" + line(0, 2) + line(0, 1))
    assert complete(str(tmp_path)) == 3
    assert keys(tmp_path) == [(0, 0), (0, 2), (0, 1)]


def test_complete_follows_a_linked_spool_and_leaves_a_lost_one(tmp_path: Path) -> None:
    elsewhere = tmp_path / "trainmark-fast"
    elsewhere.mkdir()
    (elsewhere / "rank0.jsonl").write_bytes(line(0, 0))
    (tmp_path / "spool").symlink_to(elsewhere)
    assert complete(str(tmp_path)) == 1
    assert not elsewhere.exists() and not os.path.lexists(tmp_path / "spool")
    (tmp_path / "spool").symlink_to(elsewhere)  # on another machine
    assert complete(str(tmp_path)) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(1, 80), max_size=60))
def test_a_stream_read_in_any_pieces(sizes: list[int], cuts: list[int]) -> None:
    data = line(0, 0, "TRAIN_START") + b"".join(line(0, seq, step=seq, n=n, loss=0.5) for seq, n in enumerate(sizes, 1))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rank0.jsonl")
        stream = EventStream(0, path)
        assert stream.take(5000) == b""
        got, position = b"", 0
        with open(path, "wb", buffering=0) as file:
            for cut in [*cuts, len(data)]:
                file.write(data[position : position + cut])
                position += cut
                got += stream.take(5000)
        stream.close()
    assert got == data
    assert (stream.events, stream.steps, stream.samples) == (len(sizes) + 1, len(sizes), sum(sizes))
    assert (stream.step, stream.started, stream.warnings()) == (len(sizes), True, [])
    assert stream.last_ns == 1000 + len(sizes)


@pytest.mark.parametrize(("text", "found"), [
    (b'{"k":"STEP_END","rank":0,"seq":1,"t":1,"step":12,"n":4,"loss":"NaN"}\n', (12, "NaN")),
    (b'{"k": "STEP_END", "rank": 0, "seq": 1, "t": 1, "step": 7, "n": 4, "loss": NaN}\n', (7, "NaN")),
    (b'{"k":"LOSS","rank":0,"seq":1,"t":1,"steps":[1,2],"values":[0.5,"-Infinity"]}\n', (2, "-Infinity")),
    (b'{"k":"NOTE","rank":0,"seq":1,"t":1,"name":"x","value":"NaN"}\n', None),
    (b'{"k":"STEP_END","rank":0,"seq":1,"t":1,"step":1,"n":4,"loss":0.1}\n', None),
])  # fmt: skip
def test_losses_that_are_no_numbers(tmp_path: Path, text: bytes, found: tuple[int, str] | None) -> None:
    path = tmp_path / "s"
    path.write_bytes(text)
    stream = EventStream(0, str(path))
    stream.take(10)
    assert stream.nonfinite == found


def test_ten_thousand_steps_a_second_are_cheap(tmp_path: Path) -> None:
    shipper = Shipper(str(tmp_path), str(tmp_path / "spool"), [0])
    chunk = b"".join(line(0, seq, step=seq, n=32, loss=0.123456, data=123456) for seq in range(10_000))
    (tmp_path / "spool" / "rank0.jsonl").write_bytes(chunk)
    before = time.process_time()
    while shipper.ship(time.monotonic_ns()):
        pass
    assert time.process_time() - before < 0.5
    assert (shipper.streams[0].samples, shipper.shipped) == (320_000, 10_000)
