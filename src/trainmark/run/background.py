"""Driving a run in a process of its own, which outlives the one that started it and its terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from trainmark.errors import UserError
from trainmark.run import lease
from trainmark.store.rundir import RUN_LOG, RunDir

_LOOK_SECONDS = 0.05


def start(run: RunDir, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Starts `trainmark COMMAND` in a new session, its output in the run's log. Returns once it owns the run, or has
    ended well because nothing was left to do."""
    before = lease.read(run.path)
    epoch = before.epoch if before else 0
    with (run.path / RUN_LOG).open("ab") as log:
        process = subprocess.Popen(
            # -P: a folder named trainmark where the caller stands is not this package.
            [sys.executable, "-P", "-m", "trainmark", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while True:
        owner = lease.read(run.path)
        if owner is not None and owner.epoch > epoch:
            return process
        try:
            code = process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        owner = lease.read(run.path)
        if code == 0 or (owner is not None and owner.epoch > epoch):
            return process
        raise UserError(f"the background controller could not start; see {run.path / RUN_LOG}")
