from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from trainmark.reasons import reason
from trainmark.run import stop
from trainmark.run.stop import RunSwitch, StopSwitch


def test_asked_twice_is_at_once() -> None:
    switch = StopSwitch()
    levels = [switch.level()]
    for _ in range(3):
        switch.request()
        levels.append(switch.level())
    assert levels == [0, 1, 2, 2]


def test_now_is_at_once() -> None:
    switch = StopSwitch()
    switch.request(reason("stopped"), now=True)
    assert (switch.level(), switch.reason) == (2, reason("stopped"))


def test_one_run_is_asked_by_a_file(tmp_path: Path) -> None:
    caller = StopSwitch()
    switch = RunSwitch(tmp_path, caller)
    stop.request(tmp_path, now=False)
    assert (switch.level(), caller.level()) == (1, 0) and switch.reason == reason("stopped-by-command")
    stop.request(tmp_path, now=True)
    assert switch.level() == 2
    stop.clear(tmp_path)
    assert switch.level() == 0
    caller.request()
    assert switch.level() == 1


def test_a_request_of_an_older_version_is_text(tmp_path: Path) -> None:
    (tmp_path / "stop.json").write_text('{"reason": "stopped by hand", "now": false}')
    switch = RunSwitch(tmp_path, StopSwitch())
    assert switch.level() == 1 and switch.reason == reason("text", text="stopped by hand")


def test_handlers_are_put_back() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    switch = StopSwitch()
    with pytest.raises(ZeroDivisionError), stop.on_signals(switch):
        os.kill(os.getpid(), signal.SIGTERM)
        assert switch.reason == reason("stopped-by-sigterm")
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in numbers] == before


def test_another_thread_has_no_handlers() -> None:
    found: list[BaseException] = []

    def handle() -> None:
        try:
            with stop.on_signals(StopSwitch()):
                pass
        except ValueError as error:
            found.append(error)

    thread = threading.Thread(target=handle)
    thread.start()
    thread.join()
    assert len(found) == 1
