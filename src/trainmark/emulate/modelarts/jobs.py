"""Training jobs: a queue over a pool of nodes, and one thread per job that takes it through its phases."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from trainmark.emulate.modelarts.faults import Faults
from trainmark.emulate.modelarts.objects import Objects, StoreError
from trainmark.emulate.modelarts.worker import Start, Worker, WorkerFailed, WorkerPlace

ENDED = ("Completed", "Failed", "Terminated", "Abnormal")
_LOOK_SECONDS = 0.05


class EmulatedJob:
    """`record` is what the service shows of it."""

    def __init__(self, body: dict[str, Any], cards: int, start: Start) -> None:
        self.id = str(uuid.uuid4())
        self.cards, self.start = cards, start
        self.nodes = int(body["spec"]["resource"].get("node_count") or 1)
        self.stop = threading.Event()
        self.deleted = False
        self.log_dir: Path | None = None
        metadata = body["metadata"]
        # Every answer says what it comes from.
        annotations = {**(metadata.get("annotations") or {}), "emulated": "true"}
        own = {"id": self.id, "create_time": _now(), "user_name": "emulated", "annotations": annotations}
        status = {"phase": "Creating", "secondary_phase": "Creating", "duration": 0, "start_time": 0}
        self.record = {**body, "metadata": {**metadata, **own}, "status": {**status, "tasks": [], "task_statuses": []}}

    @property
    def name(self) -> str:
        return str(self.record["metadata"]["name"])

    @property
    def phase(self) -> str:
        return str(self.record["status"]["phase"])

    def to(self, phase: str, **more: Any) -> None:
        self.record["status"] = {**self.record["status"], "phase": phase, "secondary_phase": phase, **more}


class Jobs:
    def __init__(
        self, objects: Objects, folder: Path, nodes: int, faults: Faults, upload_seconds: float = 5.0, quota: int = 0
    ) -> None:
        """`quota`: how many nodes may be in use at once before a new job is refused; 0: no such limit."""
        self.nodes, self.quota = nodes, quota
        self._objects, self._folder, self._faults, self._upload_seconds = objects, folder, faults, upload_seconds
        self._jobs: dict[str, EmulatedJob] = {}
        self._free = nodes
        self._room = threading.Condition()
        self._threads: list[threading.Thread] = []
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    # ---- what the service does with them

    def create(self, job: EmulatedJob) -> None:
        with self._room:
            self._jobs[job.id] = job
        thread = threading.Thread(target=self._run, args=(job,), name=f"job-{job.id}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def get(self, identifier: str) -> EmulatedJob | None:
        found = self._jobs.get(identifier)
        return None if found is None or found.deleted else found

    def all(self) -> list[EmulatedJob]:
        with self._room:
            return [job for job in self._jobs.values() if not job.deleted]

    def in_use(self) -> int:
        return sum(job.nodes for job in self.all() if job.phase not in ENDED)

    def stop(self, job: EmulatedJob) -> bool:
        """False for one that has ended."""
        with self._room:
            if job.phase in (*ENDED, "Terminating"):
                return job.phase == "Terminating"
            job.to("Terminating")
            job.stop.set()
            self._room.notify_all()
            return True

    def close(self) -> None:
        """Ends all of them; nothing is left when this returns."""
        for job in self.all():
            self.stop(job)
        for thread in self._threads:
            thread.join()

    # ---- one job

    def _run(self, job: EmulatedJob) -> None:
        folder = self._folder / job.id
        folder.mkdir()
        job.log_dir = folder
        if not self._await_room(job):
            job.to("Terminated")
            return
        workers = [
            Worker(
                WorkerPlace(job.id, index, job.nodes, job.cards),
                job.record["algorithm"],
                self._objects,
                _made(folder, index),
            )
            for index in range(job.nodes)
        ]
        try:
            self._train(job, workers)
        finally:
            for worker in workers:
                worker.clear()
                # Outputs and logs are in the store; of the folder only logs stay, for previews.
                for part in ("home", "user", "tmp", "packages"):
                    shutil.rmtree(worker.log.parent / part, ignore_errors=True)
            with self._room:
                self._free += job.nodes
                self._room.notify_all()

    def _await_room(self, job: EmulatedJob) -> bool:
        with self._room:
            if not job.stop.is_set():
                job.to("Pending")
            while self._free < job.nodes and not job.stop.is_set():
                self._room.wait()
            if job.stop.is_set():
                return False
            self._free -= job.nodes
            return True

    def _train(self, job: EmulatedJob, workers: list[Worker]) -> None:
        log_url = ((job.record["spec"].get("log_export_path") or {}).get("obs_url")) or None
        tasks = [f"worker-{worker.place.index}" for worker in workers]
        job.record["status"] = {**job.record["status"], "tasks": tasks}
        failed: dict[int, tuple[int, str]] = {}
        try:
            for worker in workers:
                worker.prepare()
            with self._room:
                if not job.stop.is_set():
                    job.to("Running", start_time=_now())
            for worker in workers:
                if not job.stop.is_set():
                    worker.start(job.start)
        except (WorkerFailed, StoreError, OSError) as error:
            failed[worker.place.index] = (1, str(error))
            worker.note_end(str(error))
        self._follow(job, workers, failed, log_url)
        for worker in workers:
            worker.note_end(f"{tasks[worker.place.index]} ended with code {failed.get(worker.place.index, (0, ''))[0]}")
            worker.clear()
            worker.upload(log_url, self._faults.hide)
        statuses = [
            {"task": task, "exit_code": failed.get(index, (0, ""))[0], "message": failed.get(index, (0, ""))[1]}
            for index, task in enumerate(tasks)
        ]
        lost = any(worker.lost for worker in workers)
        phase = "Terminated" if job.stop.is_set() else "Abnormal" if lost else "Failed" if failed else "Completed"
        job.to(phase, task_statuses=statuses, duration=self._duration(job))
        if lost and not job.stop.is_set():
            job.record["status"]["secondary_phase"] = "Lost"

    def _follow(
        self, job: EmulatedJob, workers: list[Worker], failed: dict[int, tuple[int, str]], log_url: str | None
    ) -> None:
        """Until no process runs. One that ended badly ends all."""
        began = uploaded = time.monotonic()
        lose = self._faults.lose_node
        while True:
            now = time.monotonic()
            if lose is not None and lose[0] < len(workers) and now - began > lose[1] and not workers[lose[0]].lost:
                workers[lose[0]].lose()
                failed[lose[0]] = (137, "the node is not ready")
            for worker in workers:
                code = worker.code_now()
                if code and worker.place.index not in failed and not job.stop.is_set():
                    failed[worker.place.index] = (code if code > 0 else 128 - code, "")
            if job.stop.is_set() or failed:
                for worker in workers:
                    worker.stop()
            if now - uploaded > self._upload_seconds:
                uploaded = now
                for worker in workers:
                    worker.upload(log_url, self._faults.hide)
            job.record["status"] = {**job.record["status"], "duration": self._duration(job)}
            if not any(worker.running() for worker in workers):
                return
            time.sleep(_LOOK_SECONDS)

    def _duration(self, job: EmulatedJob) -> int:
        return max(0, _now() - int(job.record["status"].get("start_time") or _now()))


def _made(folder: Path, index: int) -> Path:
    made = folder / f"worker-{index}"
    made.mkdir()
    return made


def _now() -> int:
    return int(time.time() * 1000)
