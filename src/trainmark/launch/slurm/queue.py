"""Asking Slurm: one question for all jobs, ever more rarely while nothing changes, and never waiting for the answer."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from typing import IO

from trainmark.errors import SiteError
from trainmark.launch.slurm.states import SACCT, SQUEUE, SlurmJob, parse_sacct, parse_squeue

BACK_OFF = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_SECONDS = 30.0
# Accounting lags behind; after so long without its word, what squeue said last counts.
_LAG_SECONDS = 10.0
_ABSENT_SECONDS = 30.0
# A controller that itself runs in a job must not hand that job's settings on.
_FOREIGN = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_", "SQUEUE_", "SACCT_", "SCANCEL_")


def environment(conf: str | None) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN) or name == "SLURM_CONF"}
    return {**own, "SLURM_CONF": conf} if conf else own


def call(argv: list[str], conf: str | None) -> str:
    """Output of a command of Slurm; SiteError with its message when it fails."""
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env=environment(conf),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        raise SiteError(f"there is no {argv[0]} here; run trainmark where Slurm's commands are") from None
    except subprocess.TimeoutExpired:
        raise SiteError(f"{argv[0]} gave no answer within {_SECONDS:g} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise SiteError(f"{argv[0]}: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stdout


class _Question:
    """One command on its way."""

    def __init__(self, argv: list[str], conf: str | None) -> None:
        self.asked = time.monotonic()
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the answer
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the answer
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err, env=environment(conf)
        )

    def answer(self) -> tuple[int, str, str] | None:
        code = self._process.poll()
        if code is None and time.monotonic() - self.asked > _SECONDS:
            self._process.kill()
            code = self._process.wait()
        if code is None:
            return None
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return code, texts[0], texts[1]


class QueueWatch:
    """What is known of the jobs of one controller."""

    def __init__(self, conf: str | None) -> None:
        self.conf = conf
        self._wanted: set[str] = set()
        self._queue: dict[str, SlurmJob] = {}
        self._lives: dict[str, list[SlurmJob]] = {}
        self._over_since: dict[str, float] = {}
        self._calls: dict[str, _Question] = {}
        self._asked = {"squeue": 0.0, "sacct": 0.0}
        self._heard = {"squeue": 0.0, "sacct": 0.0}
        self._calm = 0
        self._curious: set[str] = set()

    def want(self, job: str) -> None:
        if job not in self._wanted:
            self._wanted.add(job)
            self._calm = 0

    def hurry(self) -> None:
        """Something happened: the next look is soon."""
        self._calm = min(self._calm, 1)

    def forget(self, job: str) -> None:
        self._wanted.discard(job)

    # ---- what is known

    def job(self, job: str) -> SlurmJob | None:
        """As squeue has it now; None when it does not know the job, or was not asked yet."""
        return self._queue.get(job)

    @property
    def moment(self) -> float:
        """When squeue was asked what it answered last."""
        return self._heard["squeue"]

    def end(self, job: str) -> SlurmJob | None:
        """How a job ended, once that is certain; None before."""
        since = self._over_since.get(job)
        if since is None:
            return None
        lives = self._lives.get(job, [])
        if lives and lives[-1].over:
            return lives[-1]
        waited = time.monotonic() - since
        seen = self._queue.get(job)
        if seen is not None:
            return seen if waited > _LAG_SECONDS else None
        return SlurmJob(job, "UNKNOWN") if waited > _ABSENT_SECONDS else None

    def last_life(self, job: str, since: float) -> SlurmJob | None:
        """How the life before a requeue ended; None before accounting, asked after a moment, tells it."""
        ends = [life for life in self._lives.get(job, []) if life.over or life.state == "REQUEUED"]
        found = ends[-1] if ends and self._heard["sacct"] > since else None
        if found is None:
            self._curious.add(job)
        return found

    # ---- asking

    def step(self) -> None:
        """Asks if it is time to, takes answers that are there."""
        if not self._wanted:
            return
        now = time.monotonic()
        pause = BACK_OFF[min(self._calm, len(BACK_OFF) - 1)]
        if "squeue" not in self._calls and now - self._asked["squeue"] >= pause:
            self._ask("squeue", ["squeue", "-h", "-t", "all", "-j", self._ids(), "-o", "|".join(SQUEUE)])
            self._calm += 1
        if self._doubtful() and "sacct" not in self._calls and now - self._asked["sacct"] >= 1.0:
            fields = ",".join(SACCT)
            self._ask("sacct", ["sacct", "-n", "-P", "-X", "-D", "-j", self._ids(), "-o", fields])
        for name, question in list(self._calls.items()):
            answer = question.answer()
            if answer is not None:
                del self._calls[name]
                self._hear(name, question.asked, *answer)

    def _ids(self) -> str:
        return ",".join(sorted(self._wanted, key=int))

    def _ask(self, name: str, argv: list[str]) -> None:
        self._asked[name] = time.monotonic()
        try:
            self._calls[name] = _Question(argv, self.conf)
        except OSError:
            pass  # no such program; `submit` and `check` say so

    def _doubtful(self) -> bool:
        """Whether a job is over, or back in the queue, and accounting has not said why."""
        return bool(self._curious) or any(self.end(job) is None for job in self._wanted & set(self._over_since))

    def _hear(self, name: str, asked: float, code: int, out: str, err: str) -> None:
        if name == "sacct":
            self._heard["sacct"] = asked
            self._curious.clear()
            if code == 0:
                self._lives.update(parse_sacct(out))
            return
        if code and "invalid job id" not in err.lower():
            return  # the controller of Slurm does not answer: what was known stays
        found = parse_squeue(out)
        self._heard["squeue"] = asked
        if {job: found[job].state for job in found} != {job: self._queue[job].state for job in self._queue}:
            self._calm = min(self._calm, 1)
        self._queue = found
        for job in self._wanted:
            seen = found.get(job)
            if seen is None or seen.over:
                self._over_since.setdefault(job, time.monotonic())
            else:
                self._over_since.pop(job, None)
