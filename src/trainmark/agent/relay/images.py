"""Images and prepared folders on a relay's host: looked for, pulled, built, copied. Each may take long."""

from __future__ import annotations

import os
import subprocess

from trainmark.agent.relay.containers import ask, run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Verb = Callable[[dict[str, Any]], dict[str, Any]]

_SECONDS = 3600.0
_TAIL = 5


class Images:
    """The verbs of a relay that deal with images; `tell` hands on a line of progress."""

    def __init__(self, work: str, tell: Callable[[str], None]) -> None:
        self._work = work
        self._tell = tell
        self.verbs: dict[str, Verb] = {
            "image": self._look,
            "pull": self._pull,
            "build": self._build,
            "save": self._save,
            "load": self._load,
            "read": self._read,
            "write": self._write,
            "prepare": self._prepare,
        }

    def _look(self, asked: dict[str, Any]) -> dict[str, Any]:
        code, text = ask(asked["engine"], "image", "inspect", "--format", "{{.Id}}", asked["image"])
        return {"identity": text if code == 0 else None}

    def _pull(self, asked: dict[str, Any]) -> dict[str, Any]:
        return self._follow([asked["engine"], "pull", asked["image"]])

    def _build(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Nothing is fetched by the engine itself: what the image starts from must be on the host."""
        never = ["--pull=false"] if asked["engine"] == "docker" else ["--pull=never"]
        return self._follow([asked["engine"], "build", *never, "--tag", asked["image"], asked["folder"]])

    def _follow(self, argv: list[str]) -> dict[str, Any]:
        """Runs it and hands its lines on as they come."""
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                universal_newlines=True,
            )
        except OSError as error:
            return {"ok": False, "why": "%s: %s" % (argv[0], error.strerror)}
        lines: list[str] = []
        for line in process.stdout or ():
            if line.strip():
                lines = ([*lines, line.strip()])[-_TAIL:]
                self._tell(line.strip())
        if process.wait() == 0:
            return {}
        return {"ok": False, "why": "%s %s: %s" % (argv[0], argv[1], " / ".join(lines) or "it said nothing")}

    # ---- copies

    def _path(self, name: str) -> str:
        if not name.replace("-", "").isalnum():
            raise ValueError("%r is no name of a copy" % name)
        return os.path.join(self._work, "images", "%s-%s" % (os.uname().nodename, name))  # all hosts may share it

    def _save(self, asked: dict[str, Any]) -> dict[str, Any]:
        path = self._path(asked["name"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        code, text = run([asked["engine"], "save", "--output", path, asked["image"]], _SECONDS)
        return {"length": os.path.getsize(path)} if code == 0 else {"ok": False, "why": text}

    def _read(self, asked: dict[str, Any]) -> dict[str, Any]:
        descriptor = os.open(self._path(asked["name"]), os.O_RDONLY)
        try:
            return {"payload": os.pread(descriptor, asked["count"], asked["at"])}
        finally:
            os.close(descriptor)

    def _write(self, asked: dict[str, Any]) -> dict[str, Any]:
        path = self._path(asked["name"])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, asked["payload"], asked["at"])
        finally:
            os.close(descriptor)
        return {}

    def _load(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Takes the copy in, where `load` is asked for, and removes it in any case."""
        path = self._path(asked["name"])
        code, text = run([asked["engine"], "load", "--input", path], _SECONDS) if asked["take"] else (0, "")
        os.unlink(path)
        return {} if code == 0 else {"ok": False, "why": text}

    # ---- packages

    def _prepare(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Installs into a folder named by what it is made from: once, whole, and for all later runs."""
        import fcntl

        os.makedirs(os.path.dirname(asked["target"]), exist_ok=True)
        lock = os.open(asked["target"] + ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX)  # other runs, and other hosts where they share the folder
            return self._prepare_alone(asked)
        finally:
            os.close(lock)

    def _prepare_alone(self, asked: dict[str, Any]) -> dict[str, Any]:
        import shutil

        target, draft = asked["target"], asked["draft"]
        marker = os.path.join(target, ".trainmark-prepared")
        if os.path.exists(marker):
            return {"made": False}
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(draft, ignore_errors=True)
        os.makedirs(draft)
        done = self._follow(asked["argv"])
        if done.get("ok", True):
            os.rename(draft, target)
            with open(marker, "w") as out:
                out.write(" ".join(asked["argv"]) + "\n")
            return {"made": True}
        shutil.rmtree(draft, ignore_errors=True)
        return done
