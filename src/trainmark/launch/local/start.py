"""Starting an agent on this machine, in a session of its own so that it outlives its controller.

A controller with one thread forks it: what the two have in common is loaded already, and starting Python again would
cost more than all else the agent does in a small round. With threads a fork could be caught in another's locks; then a
new Python is started. The agent is the same program either way, and holds nothing of its controller.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import trainmark.agent
from trainmark.agent import linux
from trainmark.store.rundir import NODE_PLAN

_AGENT = Path(trainmark.agent.__file__).with_name("__main__.py")
_NAME = "trainmark-agent"  # what ps and top show; the kernel takes 15 letters
_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def start(folder: Path) -> int:
    """An agent for the node plan in `folder`; returns its pid."""
    log = os.open(folder / "agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    begin = _fork if len(os.listdir("/proc/self/task")) == 1 else _spawn
    try:
        return begin(str(folder / NODE_PLAN), null, log)
    finally:
        os.close(log)
        os.close(null)


def _spawn(plan: str, null: int, log: int) -> int:
    return os.posix_spawn(
        sys.executable,
        # Isolated and without site: the node side needs the standard library only, and starts in half the time.
        [sys.executable, "-I", "-S", str(_AGENT), "run", plan],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, source, target) for source, target in ((null, 0), (log, 1), (log, 2))],
        setsid=True,
        setsigmask=[],
        setsigdef=[*_HANDLED, signal.SIGPIPE],
    )


def _fork(plan: str, null: int, log: int) -> int:
    # Here and not in the child: the next round finds it loaded.
    from trainmark.agent import attempt, result

    # A signal that came between fork and reset would be counted by a controller that is none.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        pid = os.fork()
        if pid == 0:
            code = result.INTERNAL
            try:
                _forget_controller(null, log)
                sys.argv = [str(_AGENT), "run", plan]  # by which it starts itself with other verbs
                code = attempt.run(plan)
            finally:
                _leave(code)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _forget_controller(null: int, log: int) -> None:
    os.setsid()
    for number in _HANDLED:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that was listing
    # The controller's objects stay as they are: none is finalised here, and their memory remains shared.
    gc.freeze()
    linux.name_process(_NAME)


def _leave(code: int) -> NoReturn:
    """Ends the forked process without anything its controller had prepared for its own end."""
    if sys.exc_info()[0] is not None:
        import traceback

        os.write(2, traceback.format_exc().encode("utf-8", "replace"))
    os._exit(code)
