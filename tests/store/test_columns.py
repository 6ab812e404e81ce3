"""Reading events: what is whole counts once, what is not is said."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.i18n.speaker import say
from trainmark.reasons import reason
from trainmark.score.figures.attempt import Question, score_run
from trainmark.spec.columns import Columns
from trainmark.store import columns
from trainmark.testing.synthetic import Shape, lines


def read(folder: Path, data: bytes, world: int | None = None) -> Columns:
    node = folder / "n1_noderank0"
    node.mkdir(exist_ok=True)
    (node / "events.jsonl").write_bytes(data)
    return columns.read(folder, world)


def plain(found: Columns) -> list[tuple[int, list[int], list[int], list[int]]]:
    return [
        (r.rank, r.steps.step.tolist(), r.steps.t.tolist(), r.steps.n.tolist()) if r.steps else (r.rank, [], [], [])
        for r in found.ranks
    ]


WHOLE = [line for rank in range(3) for line in lines(Shape(steps=40), rank)]


def test_chunks_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plain(read(tmp_path, b"".join(WHOLE)))
    monkeypatch.setattr(columns, "CHUNK", 101)
    assert plain(read(tmp_path, b"".join(WHOLE))) == whole
    assert [row[0] for row in whole] == [0, 1, 2] and whole[1][1] == list(range(1, 41))


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.binary(max_size=30)), max_size=6), st.integers(0, 200))
@settings(max_examples=50, deadline=None)
def test_torn_and_foreign_lines_are_counted_and_the_rest_is_read(
    tmp_path_factory: pytest.TempPathFactory, junk: list[tuple[int, bytes]], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("events")
    mixed = list(WHOLE)
    for at, text in sorted(junk, reverse=True):
        mixed.insert(at, b"#" + text.replace(b"\n", b"") + b"\n")
    tail = WHOLE[5][: cut % (len(WHOLE[5]) - 2)]
    found = read(folder, b"".join(mixed) + tail)
    broken = len(junk) + bool(tail.strip())
    assert plain(found) == plain(read(folder, b"".join(WHOLE)))
    assert found.lines == len(WHOLE) + broken
    assert found.warnings == (
        [reason("event-lines-broken", file=f"{folder}/n1_noderank0/events.jsonl", count=broken)] * bool(broken)
    )


def test_what_was_shipped_twice_or_late_counts_once_and_in_order(tmp_path: Path) -> None:
    once = plain(read(tmp_path, b"".join(WHOLE)))
    assert plain(read(tmp_path, b"".join([*WHOLE[50:], *WHOLE, *WHOLE[:70]]))) == once


def test_ranks_that_do_not_exist_do_not_count(tmp_path: Path) -> None:
    found = read(tmp_path, b"".join([*WHOLE, *lines(Shape(steps=5), -1)]), world=2)
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert "do not belong there: -1, 2" in say(found.warnings[0])


def test_losses_come_from_steps_and_from_block_edges(tmp_path: Path) -> None:
    text = [
        b'{"k":"STEP_END","rank":0,"seq":%d,"t":%d,"step":%d,"n":1%s}\n' % (step, step, step, loss)
        for step, loss in enumerate([b"", b"", b',"loss":"NaN"', b',"loss":"Infinity"', b',"loss":0.5'], 1)
    ]
    late = b'{"k":"LOSS","rank":0,"seq":9,"t":9,"steps":[1,2,77],"values":[3.0,"-Infinity",1.0]}\n'
    (rank,) = read(tmp_path, b"".join(text) + late).ranks
    assert rank.steps is not None
    losses = rank.steps.loss.tolist()
    assert losses[:2] == [3.0, -math.inf] and math.isnan(losses[2]) and losses[3:] == [math.inf, 0.5]


HUGE = st.one_of(st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=5), st.none(), st.just({"a": [1]}))
KINDS = st.sampled_from(["INIT_START", "TRAIN_START", "PHASE_BEGIN", "PHASE_END", "EVALUATE", "NOTE", "LOSS", "BLOCK"])
FIELDS = st.sampled_from(["t", "seq", "rank", "step", "steps", "values", "name", "value", "timing"])


@given(st.lists(st.tuples(KINDS, st.dictionaries(FIELDS, HUGE, max_size=4)), max_size=8))
@settings(max_examples=100, deadline=None)
def test_whatever_stands_between_the_steps_never_breaks_scoring(
    tmp_path_factory: pytest.TempPathFactory, marks: list[tuple[str, dict[str, object]]]
) -> None:
    folder = tmp_path_factory.mktemp("events")
    foreign = [
        json.dumps({"k": kind, "rank": 0, "seq": 10**6 + number, "t": 5100 * 10**9, **fields}).encode() + b"\n"
        for number, (kind, fields) in enumerate(marks)
    ]
    found = score_run(read(folder, b"".join([*WHOLE[:20], *foreign, *WHOLE[20:]]), world=3), (), Question(world=3))
    assert found.figures["steps"].value == 40


@pytest.mark.parametrize(
    "change", [{"n": -8}, {"n": 0}, {"n": 10**30}, {"step": 4}, {"t": 1}, {"step": 10**30}, {"data": -1}]
)
def test_impossible_steps_are_told_apart(tmp_path: Path, change: dict[str, int]) -> None:
    text = list(lines(Shape(steps=40)))
    text[20] = msgspec.json.encode(msgspec.json.decode(text[20]) | change) + b"\n"
    (rank,) = read(tmp_path, b"".join(text)).ranks
    assert rank.odd == 1 and rank.steps is not None and len(rank.steps.step) == 39
