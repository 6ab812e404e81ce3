from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from trainmark.errors import SiteError
from trainmark.reasons import reason
from trainmark.run import control, lease, stop
from trainmark.run.stop import RunSwitch, StopSwitch
from trainmark.store.rundir import RunDir


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
    stop.clear(tmp_path, stop.standing(tmp_path))
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


def test_a_request_that_comes_while_a_controller_takes_over_is_heard(tmp_path: Path) -> None:
    stop.request(tmp_path, now=False)
    before = stop.standing(tmp_path)  # what the run was stopped by before
    stop.request(tmp_path, now=True)  # and now somebody asks again
    stop.clear(tmp_path, before)
    assert RunSwitch(tmp_path, StopSwitch()).level() == 2
    stop.clear(tmp_path, stop.standing(tmp_path))
    assert RunSwitch(tmp_path, StopSwitch()).level() == 0
    stop.request(tmp_path, now=False)
    stop.clear(tmp_path, None)
    assert RunSwitch(tmp_path, StopSwitch()).level() == 1


def test_a_controller_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunDir(tmp_path)
    lease.take(tmp_path)  # this process, which never looks
    with pytest.raises(SiteError, match="`trainmark stop --now x` is harsher"):
        control._stop(run, "run x", "x", False, 0.05)
    with pytest.raises(SiteError, match=rf"kill -9 {os.getpid()}"):
        control._stop(run, "run x", "x", True, 0.05)
    # A controller that took over, and cleared the request, is asked again.
    asked = []
    monkeypatch.setattr(control.stop, "standing", lambda _: None)
    monkeypatch.setattr(control.stop, "request", lambda _, now: asked.append(now))
    with pytest.raises(SiteError):
        control._stop(run, "run x", "x", True, 0.2)
    assert len(asked) > 1
