"""Containers, images and prepared folders on the host of a relay, by the container engine's own program."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from typing import Any, Callable, Dict

Verb = Callable[[Dict[str, Any]], Dict[str, Any]]

_SECONDS, _LONG_SECONDS = 15.0, 3600.0
_TAIL = 5


def run(argv: list[str], seconds: float) -> tuple[int, str]:
    """Exit code and output; standard error when it failed."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return 124, "%s did not answer within %g s" % (argv[0], seconds)
    except OSError as error:
        return 127, "%s: %s" % (argv[0], error.strerror)
    text = done.stdout if done.returncode == 0 else done.stderr or done.stdout
    return done.returncode, text.decode("utf-8", "replace").strip()


def ask(engine: str, *words: str) -> tuple[int, str]:
    return run([engine, *words], _SECONDS)


def why_not_ready(container: dict[str, Any]) -> dict[str, str] | None:
    """Why the container cannot be started (`kind` is "engine" or "image"), or None."""
    engine, image = container["engine"], container["image"]
    code, text = ask(engine, "image", "inspect", "--format", "{{.Id}}", image)
    if code == 0:
        return None
    alive, said = ask(engine, "version")
    if alive != 0:
        return {"kind": "engine", "why": "the container engine %s does not work: %s" % (engine, _last(said))}
    cure = "load or pull it, or set `pull: missing` in the site"
    return {"kind": "image", "why": "image %s is not here: %s (%s)" % (image, cure, _last(text))}


def running(container: dict[str, Any]) -> bool:
    code, text = ask(container["engine"], "inspect", "--format", "{{.State.Running}}", container["name"])
    return code == 0 and text == "true"


def signal(container: dict[str, Any], name: str) -> None:
    ask(container["engine"], "kill", "--signal", name, container["name"])


def remove(container: dict[str, Any]) -> None:
    ask(container["engine"], "rm", "--force", container["name"])


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


class Images:
    """The requests of a relay that deal with images; `tell` sends a line of progress. Each may take long."""

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
        """The engine pulls nothing: the base image must be on the host."""
        never = ["--pull=false"] if asked["engine"] == "docker" else ["--pull=never"]
        return self._follow([asked["engine"], "build", *never, "--tag", asked["image"], asked["folder"]])

    def _follow(self, argv: list[str]) -> dict[str, Any]:
        """Runs it and sends its lines as they come."""
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
        code, text = run([asked["engine"], "save", "--output", path, asked["image"]], _LONG_SECONDS)
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
        """Loads the copy where `take` is set, and removes it in any case."""
        path = self._path(asked["name"])
        code, text = run([asked["engine"], "load", "--input", path], _LONG_SECONDS) if asked["take"] else (0, "")
        os.unlink(path)
        return {} if code == 0 else {"ok": False, "why": text}

    # ---- packages

    def _prepare(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Installs packages into a folder named by their list: completely, once for all runs."""
        os.makedirs(os.path.dirname(asked["target"]), exist_ok=True)
        lock = os.open(asked["target"] + ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX)  # other runs, and other hosts where they share the folder
            return self._prepare_alone(asked)
        finally:
            os.close(lock)

    def _prepare_alone(self, asked: dict[str, Any]) -> dict[str, Any]:
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
