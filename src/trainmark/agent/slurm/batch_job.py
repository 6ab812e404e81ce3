"""The batch job of an allocation: starts an `srun` step for each order in a shared folder.

It runs on the first node for as long as the controller needs the nodes, and ends when the controller is dead. All
state is in the folder: after a requeue the job goes on with the orders that are left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import Any

from trainmark.agent.files import read_json, replace_json

CONFIG, BEAT, END = "batch_job.json", "beat.json", "end"
ORDER, TAKEN, ENDING, DONE, KILL = ".order.json", ".taken.json", ".ending", ".done.json", ".kill"
_LOOK_SECONDS, _BEAT_SECONDS = 0.25, 1.0
_ANSWER_SECONDS, _CLEAN_SECONDS = 30.0, 60.0
_LAST_LINES = 20
_READ = 16384


class Step:
    """One `srun` of an order."""

    def __init__(self, name: str, order: dict[str, Any], hosts: list[str], process: subprocess.Popen[bytes]) -> None:
        self.name, self.order, self.hosts, self.process = name, order, hosts, process
        self.cleaning_since: float | None = None
        self.code: int | None = None


class BatchJob:
    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._config: dict[str, Any] = read_json(self._file(CONFIG)) or {}
        self._nodes = _hostnames(os.environ.get("SLURM_JOB_NODELIST", ""))
        self._restart = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
        self._steps: dict[str, Step] = {}
        self._served = 0
        self._lease: Any = None
        self._heard = time.monotonic()
        self._beaten = 0.0

    def run(self) -> int:
        self._finish_earlier()
        while not self._over():
            self._beat()
            names = sorted(os.listdir(self.folder))  # asks the file server, which a look at one name may not do
            for name in names:
                if name.endswith(ORDER):
                    self._take(name[: -len(ORDER)])
                elif name.endswith(KILL):
                    self._kill(name[: -len(KILL)])
            self._reap()
            time.sleep(_LOOK_SECONDS)
        return 0

    def _file(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _finish_earlier(self) -> None:
        """Steps of the job before a requeue ended with it."""
        names = os.listdir(self.folder)
        for name in names:
            stem = name[: -len(TAKEN)]
            if name.endswith(TAKEN) and stem + DONE not in names:
                self._done(stem, {"code": None, "restarted": True, "said": self._last_lines(stem)})

    def _beat(self) -> None:
        """A sign of life, and what this allocation is."""
        now = time.monotonic()
        if now - self._beaten < _BEAT_SECONDS:
            return
        self._beaten = now
        record = {
            "job": os.environ.get("SLURM_JOB_ID"),
            "restart": self._restart,
            "nodes": self._nodes,
            "wall": time.time_ns(),
        }
        replace_json(self._file(BEAT), record)
        try:
            lease = os.stat(self._config["lease"]).st_mtime_ns
        except OSError:
            lease = None
        if lease != self._lease:
            self._lease, self._heard = lease, now

    def _over(self) -> bool:
        """Nothing runs, and the controller wants no more, or is dead."""
        if self._steps:
            return False
        if os.path.exists(self._file(END)) or (self._config.get("once") and self._served):
            return True
        return time.monotonic() - self._heard > float(self._config.get("idle_seconds") or 300.0)

    # ---- steps

    def _take(self, name: str) -> None:
        """An order belongs to whoever renames it: this job, or the controller that takes it back."""
        taken = self._file(name + TAKEN)
        try:
            os.rename(self._file(name + ORDER), taken)
        except OSError:
            return
        order = read_json(taken)
        hosts = self._hosts(order)
        if hosts is None:
            said = ["this allocation has %s" % ", ".join(self._nodes)]
            self._done(name, {"code": 1, "said": said})
            return
        self._steps[name] = Step(name, order, hosts, self._start(name, order, hosts, "slurm-step"))
        self._served += 1

    def _hosts(self, order: dict[str, Any]) -> list[str] | None:
        """The nodes of a step, in the order of the plan: named ones, or the first that no other step has."""
        wanted = order["hosts"]
        busy = {host for step in self._steps.values() for host in step.hosts}
        found = wanted if order["named"] else [host for host in self._nodes if host not in busy][: len(wanted)]
        return found if len(found) == len(wanted) and set(found) <= set(self._nodes) else None

    def _start(self, name: str, order: dict[str, Any], hosts: list[str], verb: str) -> subprocess.Popen[bytes]:
        cpus = min(_per_node(os.environ.get("SLURM_JOB_CPUS_PER_NODE", "1")))
        values = {
            "%NODES%": ",".join(hosts),
            "%CPUS%": str(cpus),
            "%ORDER%": self._file(name + TAKEN),
            "%VERB%": verb,
        }
        words = [_filled(word, values) for word in order["srun"]]
        if verb != "slurm-step" or self._config.get("borrowed"):
            words.insert(1, "--overlap")  # beside the step that the controller itself may be in
        with open(self._file(name + ".log"), "ab") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _kill(self, name: str) -> None:
        """srun ends its step when it is asked to end."""
        step = self._steps.get(name)
        try:
            os.unlink(self._file(name + KILL))
        except OSError:
            pass
        if step is not None and step.process.poll() is None:
            step.process.send_signal(signal.SIGTERM)

    def _reap(self) -> None:
        for name, step in list(self._steps.items()):
            code = step.process.poll()
            if code is None:
                if step.cleaning_since and time.monotonic() - step.cleaning_since > _CLEAN_SECONDS:
                    step.process.kill()
                continue
            hosts = self._hosts(step.order)
            if not step.cleaning_since and hosts and not _all_results(step.order):
                # Some agent was killed: a second step cleans up on its nodes.
                step.code, step.cleaning_since = code, time.monotonic()
                open(self._file(name + ENDING), "wb").close()
                step.process = self._start(name, step.order, hosts, "slurm-cleanup")
                continue
            first = step.code if step.cleaning_since else code
            self._done(name, {"code": first, "said": self._last_lines(name)})
            del self._steps[name]

    def _done(self, name: str, record: dict[str, Any]) -> None:
        replace_json(self._file(name + DONE), dict(record, restart=self._restart))

    def _last_lines(self, name: str) -> list[str]:
        try:
            with open(self._file(name + ".log"), "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _READ))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return lines[-_LAST_LINES:]


def _all_results(order: dict[str, Any]) -> bool:
    results = [read_json(os.path.join(folder, "result.json")) for folder in order["dirs"]]
    return all(isinstance(found, dict) and found.get("token") == order["token"] for found in results)


def _filled(word: str, values: dict[str, str]) -> str:
    for token, value in values.items():
        word = word.replace(token, value)
    return word


def _per_node(text: str) -> list[int]:
    """`2(x3),4`: processors of each group of nodes."""
    return [int(part.partition("(")[0]) for part in text.split(",")]


def _hostnames(text: str) -> list[str]:
    """`node[1-2]` spelled out by Slurm itself."""
    argv = ["scontrol", "show", "hostnames", text]
    done = subprocess.run(argv, stdout=subprocess.PIPE, timeout=_ANSWER_SECONDS, check=True)
    return done.stdout.decode().split()


def batch_job(folder: str) -> int:
    """The verb. Slurm's SIGTERM before the end is for the steps, which get it, too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return BatchJob(folder).run()
