"""An allocation: one Slurm job, its folder in the run, and the orders that its batch job starts as steps."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainmark.agent.slurm.batch_job import BEAT, CONFIG, DONE, END, ENDING, KILL, ORDER, TAKEN
from trainmark.errors import SiteError
from trainmark.launch import process
from trainmark.launch.slurm.command_line import SCRIPT
from trainmark.launch.slurm.queue import call
from trainmark.store.files import read_json, write_json

TOP = "slurm"
JOB, LOG = "job.json", "job.log"
WITHDRAWN = ".withdrawn.json"
GIVEN_UP, GONE = "given-up", "gone"
# A batch job beats every second; its file server may be slow to tell.
SILENT_SECONDS = 15.0
_LAST_LINES = 20
_STAGES = (
    (DONE, "done"),
    (ENDING, "ending"),
    (WITHDRAWN, "withdrawn"),
    (TAKEN, "taken"),
    (ORDER, "waiting"),
)


class Allocation:
    """`folder` is `RUN/slurm/KEY.N`: the N-th job asked for under that key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._beat: tuple[Any, float] = (None, time.monotonic())

    @property
    def record(self) -> dict[str, Any]:
        found = read_json(self.folder / JOB)
        return found if isinstance(found, dict) else {}

    @property
    def job(self) -> str | None:
        return self.record.get("job")

    @property
    def usable(self) -> bool:
        """Whether it may still be given orders."""
        return bool(self.job) and not (self.folder / GIVEN_UP).exists() and not (self.folder / END).exists()

    @property
    def gone(self) -> bool:
        """Whether Slurm was seen to have its job no more."""
        return (self.folder / GONE).exists()

    def give_up(self) -> None:
        (self.folder / GIVEN_UP).touch()

    def finish(self) -> None:
        """Tells the batch job to leave when its steps are done."""
        (self.folder / END).touch()

    def beat(self) -> dict[str, Any]:
        """What its batch job reported last: the hosts Slurm gave, and how often the job was started again."""
        found = read_json(self.folder / BEAT)
        return found if isinstance(found, dict) else {}

    def silent(self) -> float:
        """For how long the batch job has not been heard, as seen from here."""
        mark, now = self.beat().get("wall"), time.monotonic()
        if mark != self._beat[0]:
            self._beat = (mark, now)
        return now - self._beat[1]

    # ---- the job

    def ask(self, argv: list[str], name: str, config: dict[str, Any], conf: str | None) -> None:
        """Asks Slurm for it. Its name is written down first: a controller killed here can still find its job."""
        self.folder.mkdir(parents=True)
        write_json(self.folder / CONFIG, config)
        script = self.folder / "job.sh"
        script.write_text(SCRIPT)
        record = {"name": name, "argv": argv, "conf": conf, "job": None}
        write_json(self.folder / JOB, record, durable=True)
        try:
            said = call(argv, conf).strip()
        except SiteError:
            self.give_up()
            raise
        job = said.splitlines()[-1].partition(";")[0] if said else ""
        if not job.isdigit():
            self.give_up()
            raise SiteError(f"sbatch gave no job id, but {said!r}")
        write_json(self.folder / JOB, {**record, "job": job}, durable=True)

    def borrow(self, argv: list[str], job: str, config: dict[str, Any]) -> None:
        """Starts the batch job's program in a job that this controller itself runs in, whose variables it inherits."""
        self.folder.mkdir(parents=True)
        write_json(self.folder / CONFIG, {**config, "borrowed": True})
        record = {"name": None, "argv": argv, "conf": None, "job": job, "borrowed": True, "process": None}
        write_json(self.folder / JOB, record, durable=True)
        with (self.folder / LOG).open("ab") as log:
            started = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        write_json(self.folder / JOB, {**record, "process": process.name(started.pid)}, durable=True)

    @property
    def borrowed(self) -> bool:
        """Whether its job is somebody else's, and stays."""
        return bool(self.record.get("borrowed"))

    @property
    def serving(self) -> bool:
        """Whether the program that starts steps in a borrowed job lives."""
        return process.is_alive(self.record.get("process"))

    def recover(self) -> None:
        """Finds the job of a controller that was killed before it could write its number down."""
        record = self.record
        if record.get("job") or not record.get("name"):
            return
        said = call(["squeue", "-h", "-t", "all", "-n", record["name"], "-o", "%i"], record.get("conf")).split()
        if said and said[0].isdigit():
            write_json(self.folder / JOB, {**record, "job": said[0]}, durable=True)
        else:
            self.give_up()

    # ---- orders

    def next_order(self) -> str:
        """A name that no order has had."""
        used = [int(path.name.partition(".")[0]) for path in self.folder.iterdir() if path.name[:4].isdigit()]
        return f"{max(used, default=0) + 1:04d}"

    def order(self, name: str, content: dict[str, Any]) -> None:
        write_json(self.folder / (name + ORDER), content)

    def withdraw(self, name: str) -> bool:
        """Takes an order back that no batch job has taken."""
        try:
            os.rename(self.folder / (name + ORDER), self.folder / (name + WITHDRAWN))
        except OSError:
            return False
        return True

    def kill(self, name: str) -> None:
        (self.folder / (name + KILL)).touch()

    def stage(self, name: str) -> str:
        """`waiting`, `taken`, `ending`, `withdrawn`, `done`, or `` for an order that was never given."""
        names = set(os.listdir(self.folder)) if self.folder.is_dir() else set()
        return next((word for ending, word in _STAGES if name + ending in names), "")

    def said(self, name: str) -> list[str]:
        """The last that srun and Slurm itself said of an order's step."""
        lines: list[str] = []
        for file in (self.folder / f"{name}.log", self.folder / LOG):
            if file.is_file():
                lines += file.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return lines

    def done(self, name: str) -> dict[str, Any]:
        found = read_json(self.folder / (name + DONE))
        return found if isinstance(found, dict) else {}


def still_there(allocations: list[Allocation]) -> list[Allocation]:
    """Those whose jobs squeue still has, COMPLETING included: one question for all of a configuration."""
    found = [one for one in allocations if one.borrowed and one.serving]
    for one in allocations:
        if one.borrowed and not one.serving:
            (one.folder / GONE).touch()
    allocations = [one for one in allocations if not one.borrowed]
    for conf in {one.record.get("conf") for one in allocations}:
        asked = {str(one.job): one for one in allocations if one.record.get("conf") == conf}
        try:
            said = call(["squeue", "-h", "-j", ",".join(asked), "-o", "%i|%j"], conf)
        except SiteError as error:
            # An error that is not about a number says nothing.
            said = "" if "invalid job id" in str(error).lower() else "\n".join(f"{job}|" for job in asked)
        names = dict(line.split("|", 1) for line in said.splitlines() if "|" in line)
        for job, one in asked.items():
            # A number that is somebody else's by now has another name.
            if names.get(job) in ("", one.record["name"]):
                found.append(one)
            else:
                (one.folder / GONE).touch()
    return found


def cancel(allocation: Allocation) -> None:
    """Exactly this job: by its number and its name, since numbers are used again. Of a borrowed one, its steps."""
    record = allocation.record
    if allocation.borrowed:
        for taken in allocation.folder.glob(f"*{TAKEN}"):
            allocation.kill(taken.name.removesuffix(TAKEN))
        process.wake(record.get("process"))  # a stopped one would see to nothing
        return
    argv = ["scancel", "--quiet", f"--name={record['name']}", str(allocation.job)]
    with contextlib.suppress(SiteError):  # over already, or Slurm is away: the wait for its end shows which
        call(argv, record.get("conf"))


def all_of(run_dir: Path) -> Iterator[Allocation]:
    """Every allocation of a run, by key and age."""
    folders = [path.parent for path in (run_dir / TOP).glob(f"*/{JOB}")]
    for folder in sorted(folders, key=lambda path: (path.suffix, path.name)):
        yield Allocation(folder)


def of_key(run_dir: Path, key: str) -> list[Allocation]:
    """Those asked for under a key, oldest first."""
    found = [one for one in all_of(run_dir) if one.folder.stem == key]
    return sorted(found, key=lambda one: int(one.folder.suffix[1:]))
