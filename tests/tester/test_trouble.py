"""Trouble of the tester itself, and clients that take their time: other subjects are served, nothing is lost."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.tester.conftest import TEST, codes, link_to
from tests.tester.test_messages import headers, made
from trainmark.errors import UserError
from trainmark.reasons import Reason
from trainmark.store.files import Damaged
from trainmark.tester import judging, server, subject
from trainmark.tester.client import Away, Link
from trainmark.tester.definition import Limits
from trainmark.tester.server import Tester as Serving
from trainmark.tester.tickets import Heartbeat, Tickets
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


def _connected(tester: Serving) -> socket.socket:
    address = urlsplit(tester.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def _is_closed(raw: socket.socket) -> bool:
    try:
        return raw.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def _trickled(raw: socket.socket) -> bool:
    """Whether the tester closes the connection of a client that always sends another byte."""
    raw.settimeout(0.02)
    for _ in range(250):
        try:
            raw.sendall(b"x")
        except ConnectionError:
            return True
        if _is_closed(raw):
            return True
    return False


def _half(tester: Serving, ticket: str, raw: socket.socket) -> None:
    """The first part of an upload."""
    target = f"/v1/tickets/{ticket}/result"
    request = headers(made(target, b"x" * 1000))
    lines = [f"POST {target} HTTP/1.1", "Content-Length: 1000", *(f"{k}: {v}" for k, v in request.items())]
    raw.sendall("\r\n".join([*lines, "", ""]).encode() + b"x" * 500)


def test_who_sends_byte_by_byte_does_not_keep_a_connection(
    serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_HEADER_SECONDS", "_BODY_SECONDS"):
        monkeypatch.setattr(server, name, 0.5)
    tester = serve()
    with _connected(tester) as raw:
        raw.sendall(b"POST /v1/definition HTTP/1.1\r\nX-Trainmark-Key: ")
        assert _trickled(raw)
    ticket = subject.take(link_to(tester)).ticket
    with _connected(tester) as raw:
        _half(tester, ticket, raw)
        assert _trickled(raw)
    assert subject.definition(link_to(tester)).test == "t1"


def test_trouble_of_the_tester_is_told_and_clients_that_leave_are_not(
    serve: Callable[..., Serving], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Reason] = []
    tester = serve(tell=said.append)
    link = link_to(tester)
    ticket = subject.take(link).ticket
    with _connected(tester) as raw:
        _half(tester, ticket, raw)
        raw.shutdown(socket.SHUT_WR)
        assert _is_closed(raw)
    assert {one.code for one in said} == {"tester-taken"}
    monkeypatch.setattr(tester.tickets, "new_part", lambda _: tmp_path / "missing" / "part")
    (tmp_path / "upload").write_bytes(b"x")
    with pytest.raises(Away, match="trouble of its own"):
        link.upload(f"/v1/tickets/{ticket}/result", tmp_path / "upload")
    assert said[-1].code == "tester-trouble" and "FileNotFoundError" in said[-1].arguments["why"]


def test_a_broken_ticket_is_named_and_hides_no_other(tmp_path: Path) -> None:
    place = tmp_path / "tester"
    kept = Tickets(place)
    first, second = (kept.take("subject", asked, "test", Limits(runs=9)).ticket for asked in ("one", "two"))
    (place / "tickets" / first / "ticket.json").write_bytes(b'{"ticket": {"tick')
    kept.beat(kept.of("subject", second), Heartbeat("run", "RUNNING", 3, 1))
    broken: list[Damaged] = []
    assert [row.issued.ticket.ticket for row in kept.rows(broken.append)] == [second]
    assert [first in str(one) for one in broken] == [True]
    assert kept.take("subject", "three", "test", Limits(runs=9)).ticket, "others still get theirs"
    # Half a file after a power failure: heartbeats go on.
    (place / "tickets" / second / "heard.json").write_bytes(b"")
    kept.beat(kept.of("subject", second), Heartbeat("run", "RUNNING", 3, 2))
    assert kept.of("subject", second).heard


def test_a_folder_that_others_can_write_to_holds_no_verdicts(tmp_path: Path) -> None:
    place = tmp_path / "tester"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(UserError, match=r"--dir .*others can write to it \(mode 0777\)"):
        Tickets(place)
    assert not (place / "tickets").exists()
