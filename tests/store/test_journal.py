from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmark.store import journal

GUARD = contextlib.nullcontext


def write(folder: Path, count: int, epoch: int = 1) -> None:
    writer = journal.Journal(folder, epoch, GUARD)
    for number in range(count):
        writer.append(journal.STOP, reason=f"{epoch}.{number}")
    writer.close()


def reasons(folder: Path) -> list[str | None]:
    return [record.reason for record in journal.read(folder).records]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data())
def test_cut_anywhere_keeps_every_whole_record(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("journal")
    write(folder, 5)
    file = folder / journal.NAME
    content = file.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    file.write_bytes(content[:cut])
    read = journal.read(folder)
    whole = content[:cut].count(b"\n")
    # A cut just before the newline leaves a whole record too.
    assert len(read.records) in (whole, whole + 1)
    assert bool(read.warnings) == (len(read.records) == whole and not content[:cut].endswith(b"\n") and cut > 0)
    write(folder, 2, epoch=2)
    again = reasons(folder)
    assert again[-2:] == ["2.0", "2.1"] and len(again) == len(read.records) + 2


def test_a_replaced_controller_is_not_heard(tmp_path: Path) -> None:
    old = journal.Journal(tmp_path, 1, GUARD)
    old.append(journal.STOP, reason="before")
    new = journal.Journal(tmp_path, 2, GUARD)
    new.append(journal.OWNER)
    old.append(journal.STOP, reason="after")
    assert [record.k for record in journal.read(tmp_path).records] == [journal.STOP, journal.OWNER]


def test_every_torn_line_is_named(tmp_path: Path) -> None:
    write(tmp_path, 4)
    file = tmp_path / journal.NAME
    lines = file.read_bytes().split(b"\n")
    lines[1], lines[2] = b"{garbage", b"\xff\xfe"
    file.write_bytes(b"\n".join(lines))
    read = journal.read(tmp_path)
    assert len(read.records) == 2
    assert [one.arguments["line"] for one in read.warnings] == [2, 3]


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert journal.read(tmp_path).records == []


def test_room_is_kept_while_open_and_given_back(tmp_path: Path) -> None:
    writer = journal.Journal(tmp_path, 1, GUARD)
    assert (tmp_path / journal.RESERVE).stat().st_blocks > 0
    writer.close()
    assert not (tmp_path / journal.RESERVE).exists()
