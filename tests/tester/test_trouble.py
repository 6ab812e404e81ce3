"""Trouble of the tester itself, and clients that take their time: other subjects are served, nothing is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tester.conftest import TEST, codes, link_to
from trainmark.reasons import Reason
from trainmark.tester import judging, subject
from trainmark.tester.client import Link
from trainmark.tester.server import Tester as Serving
from trainmark.trust import verify

_judge = judging.judge


def _uploaded(link: Link, folder: Path) -> str:
    """A ticket, with a result that is no bundle."""
    ticket = subject.take(link).ticket
    file = folder / "upload"
    file.write_bytes(b"no bundle")
    assert link.upload(f"/v1/tickets/{ticket}/result", file)["received"]
    return ticket


def _until(is_so: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_result_that_cannot_be_judged_does_not_stop_the_others(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Reason] = []
    tried: list[str] = []

    def judge(bundle: Path, test: Any, issued: Any, received: float) -> Any:
        tried.append(issued.ticket.ticket)
        if issued.ticket.ticket == tried[0]:
            raise OSError(28, "No space left on device")
        return _judge(bundle, test, issued, received)

    monkeypatch.setattr(judging, "judge", judge)
    tester = serve(tell=said.append)
    link = link_to(tester)
    first, second = (_uploaded(link, tmp_path) for _ in range(2))
    _until(lambda: link.ask(f"/v1/tickets/{second}/verdict", {})["verdict"])
    assert link.ask(f"/v1/tickets/{first}/verdict", {}) == {"received": True, "verdict": None}
    failed = [one for one in said if one.code == "tester-judging-failed"]
    assert len(failed) == 1 and "No space left" in failed[0].arguments["why"]
    # Started again and again, it is not tried for ever; without the count it is.
    for _ in range(3):
        tester.__exit__()
        tester = serve(tell=said.append)
    tester.__exit__()
    assert tried.count(first) == 3 and said[-1].code == "tester-not-judged"
    tester.tickets.tries(first).unlink()
    monkeypatch.setattr(judging, "judge", _judge)
    last = serve()
    _until(lambda: link_to(last).ask(f"/v1/tickets/{first}/verdict", {})["verdict"])
    assert not last.tickets.tries(first).exists()


def test_content_that_no_reader_expects_is_a_fault(
    tester: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Path) -> None:
        raise KeyError("plan")

    monkeypatch.setattr(verify, "verify", broken)
    ticket = subject.take(link_to(tester)).ticket
    issued = tester.tickets.row(ticket)
    assert issued is not None
    assert codes(judging.judge(tmp_path, TEST, issued.issued, 0.0)) == {"run-unreadable"}


def test_a_result_is_on_the_disk_before_the_subject_is_told(
    tester: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[int, bool]] = []
    fsync = os.fsync

    def noted(handle: int) -> None:
        synced.append((os.fstat(handle).st_ino, any(tester.tickets.folder.glob("tickets/*/result.tmk"))))
        fsync(handle)

    link = link_to(tester)
    monkeypatch.setattr(os, "fsync", noted)
    result = tester.tickets.result(_uploaded(link, tmp_path))
    content, folder = result.stat().st_ino, result.parent.stat().st_ino
    assert (content, False) in synced, "its content, before it has its name"
    assert (folder, True) in synced, "its name"
