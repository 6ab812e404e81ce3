"""One worker of a job: a fresh folder with code and data, the documented environment, and real processes.

A real service runs it in a container. Here a folder and an environment of its own take that place, and when the worker
ends, every process that carries the job's name is killed, as the end of a container would do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from trainmark.emulate.modelarts.objects import Objects
from trainmark.store.files import write_json

# After SIGTERM, before SIGKILL.
GRACE_SECONDS = 15.0
_INITIALIZING_SECONDS = 0.5
_PRESTART, _REQUIREMENTS = "ma-pre-start.sh", "pip-requirements.txt"
# The script's exports must reach the processes. The names of files are arguments, never part of this text.
_SOURCE = 'source "$1"; env -0 > "$2"'
_JOB = "MA_VJ_NAME"


class WorkerFailed(Exception):
    """It could not be started; the text goes into the log and the status."""


class WorkerPlace(msgspec.Struct, frozen=True):
    """Where in the job a worker is."""

    job: str
    index: int
    count: int
    cards: int

    @property
    def pod(self) -> str:
        return f"ma-job-{self.job}-worker-{self.index}"


class Start(msgspec.Struct, frozen=True):
    """`how`: the boot file once for each card, once for each node, or by torchrun; `command` instead of a boot file."""

    how: str
    command: list[str]


class Worker:
    def __init__(self, place: WorkerPlace, algorithm: dict[str, Any], objects: Objects, folder: Path) -> None:
        self.place, self._algorithm, self._objects, self._folder = place, algorithm, objects, folder
        self.home = folder / "home" / "ma-user"
        self.mount = self.home / "modelarts"
        self.log = folder / f"modelarts-job-{place.job}-worker-{place.index}.log"
        self.outputs: list[tuple[Path, str, str]] = []
        self.lost = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._sent: dict[Path, tuple[int, int]] = {}
        self._stopped_at: float | None = None

    # ---- before the start

    def prepare(self) -> None:
        """Brings code and data; WorkerFailed with a reason that its log has, too."""
        for part in ("user-job-dir", "inputs", "outputs", "log", "rank_table"):
            (self.mount / part).mkdir(parents=True)
        (self._folder / "user" / "config").mkdir(parents=True)
        (self._folder / "tmp").mkdir()
        code = self._algorithm.get("code_dir")
        self.code = self.mount / "user-job-dir" / Path(code.rstrip("/")).name if code else self.mount / "user-job-dir"
        if code:
            self._note(f"download code_url: {code}, {self._pull(code, self.code)} files")
        self.arguments = [
            f"--{one['name']}={one.get('value') or ''}" for one in self._algorithm.get("parameters") or ()
        ]
        self.variables: dict[str, str] = {}
        for one in self._algorithm.get("inputs") or ():
            folder = self.mount / "inputs" / f"{one['name']}_0"
            folder.mkdir()
            count = self._pull(one["remote"]["obs"]["obs_url"], folder)
            self._note(f"download input {one['name']}: {count} files")
            self._hand_over(one, folder)
        for one in self._algorithm.get("outputs") or ():
            folder = self.mount / "outputs" / f"{one['name']}_0"
            folder.mkdir()
            self.outputs.append((folder, *place_of(one["remote"]["obs"]["obs_url"])))
            self._hand_over(one, folder)

    def _hand_over(self, channel: dict[str, Any], folder: Path) -> None:
        if channel.get("access_method") == "env":
            self.variables[channel["name"]] = f"{folder}/"
        else:
            self.arguments.append(f"--{channel['name']}={folder}/")

    def _pull(self, url: str, folder: Path) -> int:
        bucket, prefix = place_of(url)
        count = 0
        for stored in self._objects.below(bucket, prefix):
            inner = stored.key[len(prefix) :].lstrip("/")
            if not inner or inner.endswith("/"):
                continue
            path = folder / inner
            if ".." in Path(inner).parts:
                raise WorkerFailed(f"{stored.key}: no name for a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._objects.read(bucket, stored.key))
            count += 1
        return count

    # ---- start

    def start(self, start: Start) -> None:
        environment = {**self._environment(start), **self.variables, **(self._algorithm.get("environments") or {})}
        # Boot files look at it again and again: they see the old one or the new one, never a part.
        table = self._folder / "user" / "config" / "jobstart_hccl.json"
        write_json(table, {"status": "initializing"})
        if (self.code / _REQUIREMENTS).is_file():
            environment = self._with_packages(environment)
        if (self.code / _PRESTART).is_file():
            environment = self._with_exports(environment)
        boot = self._boot()
        log = self.log.open("ab", buffering=0)
        if start.how == "card":
            # The engine's own start program waits for the table, converts it, and starts the boot file for each card.
            time.sleep(_INITIALIZING_SECONDS)
            write_json(table, rank_table(self.place))
            converted = self.mount / "rank_table" / "jobstart_hccl.json"
            write_json(converted, converted_table(self.place))
            for card in range(self.place.cards):
                own = {"RANK_TABLE_FILE": str(converted), **_card(self.place, card)}
                self._start([sys.executable, "-u", *boot], {**environment, **own}, log)
            return
        environment["RANK_TABLE_FILE"] = str(table.parent)
        if start.how == "torchrun":
            place = self.place
            argv = [
                sys.executable,
                "-m",
                "torch.distributed.run",
                f"--nnodes={place.count}",
                f"--node-rank={place.index}",
            ]
            argv += [f"--nproc-per-node={place.cards}", "--master-addr=127.0.0.1", f"--master-port={_port(place.job)}"]
            self._start([*argv, *boot], environment, log)
        else:
            self._start(start.command or [sys.executable, "-u", *boot], environment, log)
        time.sleep(_INITIALIZING_SECONDS)
        write_json(table, rank_table(self.place))

    def _boot(self) -> list[str]:
        if not self._algorithm.get("boot_file"):
            return []
        inner = os.path.relpath(self._algorithm["boot_file"], self._algorithm["code_dir"])
        return [str(self.code / inner), *self.arguments]

    def _environment(self, start: Start) -> dict[str, str]:
        """Nothing of the emulator's own but what finds Python: its keys are not the job's."""
        place, job = self.place, f"ma-job-{self.place.job}"
        found = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH") if name in os.environ}
        return {
            **found,
            "HOME": str(self.home),
            "TMPDIR": str(self._folder / "tmp"),
            "MA_HOME": str(self.home),
            "MA_JOB_DIR": str(self.mount / "user-job-dir"),
            "MA_MOUNT_PATH": str(self.mount),
            "MA_LOG_DIR": str(self.mount / "log"),
            "MA_SCRIPT_INTERPRETER": sys.executable,
            "MA_CURRENT_IP": address(place.index),
            "MA_CURRENT_HOST_IP": address(place.index),
            "MA_NUM_GPUS": str(place.cards),
            "MA_TASK_NAME": "worker",
            "MA_NUM_HOSTS": str(place.count),
            _JOB: job,
            "MA_CURRENT_INSTANCE_NAME": place.pod,
            "MA_RUN_METHOD": start.how if start.how == "torchrun" else "",
            "VC_TASK_INDEX": str(place.index),
            "VC_WORKER_NUM": str(place.count),
            # Real services give names of a network of their own; these addresses can be reached here.
            "VC_WORKER_HOSTS": ",".join(address(index) for index in range(place.count)),
            "TRAINMARK_EMULATED": "modelarts",
        }

    def _with_packages(self, environment: dict[str, str]) -> dict[str, str]:
        target = self._folder / "packages"
        argv = [sys.executable, "-P", "-m", "pip", "install", "--disable-pip-version-check", "--target", str(target)]
        with self.log.open("ab") as log:
            done = subprocess.run(
                [*argv, "-r", str(self.code / _REQUIREMENTS)], env=environment, stdout=log, stderr=log, check=False
            )
        if done.returncode:
            raise WorkerFailed(f"{_REQUIREMENTS}: pip ended with code {done.returncode}")
        return {**environment, "PYTHONPATH": str(target)}

    def _with_exports(self, environment: dict[str, str]) -> dict[str, str]:
        """Once for the worker, before any boot file; what it exports reaches them all."""
        exports = self._folder / "exports"
        with self.log.open("ab") as log:
            argv = ["bash", "-c", _SOURCE, "ma-pre-start", str(self.code / _PRESTART), str(exports)]
            cwd = self.mount / "user-job-dir"
            subprocess.run(
                argv, env=environment, cwd=cwd, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False
            )
        if not exports.is_file():
            raise WorkerFailed(f"{_PRESTART} ended the shell that sourced it")
        pairs = [pair.partition("=") for pair in exports.read_text(errors="replace").split("\0") if pair]
        return {name: value for name, _, value in pairs if name not in ("_", "SHLVL", "PWD", "OLDPWD")}

    def _start(self, argv: Sequence[str], environment: dict[str, str], log: BinaryIO) -> None:
        self._processes.append(
            subprocess.Popen(
                argv,
                env=environment,
                cwd=self.mount / "user-job-dir",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        )

    # ---- under way

    def code_now(self) -> int | None:
        """Its exit code; None while a process of it runs. The first that is not 0 counts."""
        codes = [process.poll() for process in self._processes]
        bad = [code for code in codes if code]
        if bad:
            return bad[0]
        return None if None in codes or not codes else 0

    def running(self) -> bool:
        return any(process.poll() is None for process in self._processes)

    def stop(self) -> None:
        """SIGTERM first; after a while SIGKILL, and for whatever left its session as well."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._signal(signal.SIGTERM)
        elif time.monotonic() - self._stopped_at > GRACE_SECONDS:
            self._signal(signal.SIGKILL)

    def lose(self) -> None:
        """Its machine is gone: nothing more of it is heard."""
        self.lost = True
        self.clear()

    def clear(self) -> None:
        """The end of its container."""
        self._signal(signal.SIGKILL)
        for process in self._processes:
            process.wait()
        mark = f"{_JOB}=ma-job-{self.place.job}".encode()
        own = f"VC_TASK_INDEX={self.place.index}".encode()
        for _ in range(50):
            left = [pid for pid in _pids() if {mark, own} <= _variables(pid)]
            for pid in left:
                _kill(pid)
            if not left:
                return
            time.sleep(0.02)

    def _signal(self, number: int) -> None:
        for process in self._processes:
            if process.poll() is None:
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    pass

    # ---- logs and output

    def upload(self, log_url: str | None, hide: str) -> None:
        """What changed since the last time."""
        if self.lost:
            return
        if log_url is not None and self.log.is_file():
            bucket, prefix = place_of(log_url)
            self._send(self.log, bucket, prefix.rstrip("/") + "/" + self.log.name)
        for folder, bucket, prefix in self.outputs:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink() and not (hide and hide in str(path)):
                    self._send(path, bucket, f"{prefix.rstrip('/')}/{path.relative_to(folder)}")

    def _send(self, path: Path, bucket: str, key: str) -> None:
        try:
            found = path.stat()
            mark = (found.st_mtime_ns, found.st_size)
            if self._sent.get(path) != mark:
                self._objects.put(bucket, key, path.read_bytes())
                self._sent[path] = mark
        except FileNotFoundError:
            pass  # a file that was replaced just now; next time

    def note_end(self, text: str) -> None:
        if not self.lost:
            self._note(text)

    def _note(self, text: str) -> None:
        with self.log.open("ab") as log:
            log.write(f"[ModelArts Service Log][emulated] {text}\n".encode())


def place_of(url: str) -> tuple[str, str]:
    """`obs://bucket/key`, `s3://bucket/key` or `/bucket/key` → bucket and key."""
    text = url.removeprefix("obs:").removeprefix("s3:").lstrip("/")
    bucket, _, key = text.partition("/")
    return bucket, key


def address(index: int) -> str:
    return f"127.0.{index // 250}.{index % 250 + 1}"


def rank_table(place: WorkerPlace) -> dict[str, Any]:
    """As the platform writes it."""
    instances = [
        {
            "pod_name": f"ma-job-{place.job}-worker-{worker}",
            "server_id": address(worker),
            "devices": [
                {"device_id": str(card), "device_ip": _device_ip(place, worker, card)} for card in range(place.cards)
            ],
        }
        for worker in range(place.count)
    ]
    group = {
        "group_name": "job-trainjob",
        "device_count": str(place.count * place.cards),
        "instance_count": str(place.count),
        "instance_list": instances,
    }
    return {"status": "completed", "group_count": "1", "group_list": [group]}


def converted_table(place: WorkerPlace) -> dict[str, Any]:
    """As the engine's own start program hands it to the boot file."""
    servers = [
        {
            "server_id": address(worker),
            "device": [
                {
                    "device_id": str(card),
                    "device_ip": _device_ip(place, worker, card),
                    "rank_id": str(worker * place.cards + card),
                }
                for card in range(place.cards)
            ],
            "host_nic_ip": "reserve",
        }
        for worker in range(place.count)
    ]
    return {"version": "1.0", "server_count": str(place.count), "server_list": servers, "status": "completed"}


def _device_ip(place: WorkerPlace, worker: int, card: int) -> str:
    number = worker * place.cards + card
    return f"127.1.{number // 250}.{number % 250 + 1}"


def _card(place: WorkerPlace, card: int) -> dict[str, str]:
    rank = place.index * place.cards + card
    return {
        "RANK_ID": str(rank),
        "RANK_SIZE": str(place.count * place.cards),
        "DEVICE_ID": str(card),
        "ASCEND_DEVICE_ID": str(card),
        "JOB_ID": place.job,
    }


def _port(job: str) -> int:
    return 20000 + int(job.replace("-", "")[:8], 16) % 10000


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _variables(pid: int) -> set[bytes]:
    try:
        return set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
