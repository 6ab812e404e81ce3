"""Virtual environments for frameworks that do not live well beside each other: pinned, shared by all runs, removable.

Every package is checked by the hashes of its lock, `frameworks/locks/NAME.txt`, whatever index it comes from. An
environment lies in the cache under its name and the hash of its pins. Its mark is written last, so that one which was
being made when its maker was killed is never taken for whole; a lock keeps two makers apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trainmark import cache
from trainmark.agent import private
from trainmark.errors import SiteError, UserError, did_you_mean, one_of
from trainmark.spec import yamlfile
from trainmark.spec.yamlfile import convert

_PINS = Path(__file__).resolve().parent / "frameworks" / "environments.yaml"
_MARK = "trainmark.json"
# What pip says that is worth a line of progress.
_WORTH_TELLING = ("Collecting", "Downloading", "Processing", "Installing")

Progress = Callable[[str], None]


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of environments.yaml."""

    title: str
    module: str
    version: str
    python: list[str]
    size: str
    packages: list[str]


class _Pins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    environments: dict[str, Environment]


def catalogue() -> dict[str, Environment]:
    """All environments that can be made, by the name of their framework."""
    return convert(yamlfile.load(_PINS), _Pins, str(_PINS)).environments


def named(name: str) -> Environment:
    known = catalogue()
    if name not in known:
        raise UserError(f"no environment `{name}`{did_you_mean(name, known)}; there is {one_of(known)}")
    return known[name]


def lock(name: str) -> Path:
    """The packages of an environment with the hashes of their files; `tools/lock.py` makes it."""
    return _PINS.parent / "locks" / f"{name}.txt"


def home(name: str) -> Path:
    """Where the environment lies, or would lie: other pins lie elsewhere."""
    pins = msgspec.json.encode(named(name).packages)
    return cache.cache_dir("environments") / f"{name}-{hashlib.sha256(pins).hexdigest()[:12]}"


def python_of(name: str) -> str | None:
    """The interpreter of a whole environment; None when there is none."""
    folder = home(name)
    if not (folder / _MARK).is_file():
        return None
    for path in (folder, folder / "bin"):  # ranks are started with what lies here
        why = private.why_foreign(str(path))
        if why is not None:
            raise SiteError(f"the environment {path} is not used: {why}; remove it and make it again")
    return str(folder / "bin" / "python")


def create(name: str, python: str | None, say: Progress) -> Path:
    """The environment's folder, made if it is not there yet."""
    environment, folder = named(name), home(name)
    python = os.path.abspath(python) if python and "/" in python else python or sys.executable
    if python_of(name):
        return folder
    _check_python(name, environment, python)
    with _locked(folder, say):
        if python_of(name):  # another maker was faster
            return folder
        shutil.rmtree(folder, ignore_errors=True)  # half-made by one who was killed
        say(f"{name}: {len(environment.packages)} packages, about {environment.size}")
        try:
            _make(folder, python, environment, lock(name), say)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        record = {"schema": 1, "name": name, "python": python, "packages": environment.packages}
        half = folder / f".{_MARK}"
        half.write_bytes(msgspec.json.encode(record))
        half.replace(folder / _MARK)
    return folder


def remove(name: str) -> list[Path]:
    """Every environment of this name, those of older pins too; their folders come back."""
    named(name)
    found = sorted(path for path in home(name).parent.glob(f"{name}-*") if path.is_dir())
    for folder in found:
        with _locked(folder, lambda _: None):
            (folder / _MARK).unlink(missing_ok=True)  # from here on nobody takes it for whole
            shutil.rmtree(folder)
        _lock_file(folder).unlink(missing_ok=True)
    return found


def _make(folder: Path, python: str, environment: Environment, packages: Path, say: Progress) -> None:
    _run([python, "-m", "venv", "--without-pip", str(folder)], say)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--no-deps"]
    pip += ["--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    _run([*pip, "--require-hashes", "-r", str(packages)], say)
    _run([str(folder / "bin" / "python"), "-c", f"import {environment.module}"], say)


def _run(argv: list[str], say: Progress) -> None:
    """Runs a program; what it says last is the reason when it fails."""
    import subprocess
    from collections import deque

    last: deque[str] = deque(maxlen=4)
    # In the root folder: `-m` and `-c` look for modules where they are started, and that may be anybody's folder.
    quiet: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": "/"}
    with subprocess.Popen(argv, text=True, errors="replace", **quiet) as done:
        try:
            for line in done.stdout or ():
                text = line.strip()
                if text:
                    last.append(text)
                if text.startswith(_WORTH_TELLING):
                    say(f"  {text}")
        except BaseException:
            done.kill()
            raise
    if done.returncode:
        why = " / ".join(last) or f"exit code {done.returncode}"
        raise SiteError(f"`{' '.join(argv[:4])} …` failed: {why}")


def _check_python(name: str, environment: Environment, python: str) -> None:
    import subprocess

    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        raise UserError(f"--python {python}: {error.strerror}") from None
    found = said.stdout.strip()
    if found not in environment.python:
        raise UserError(
            f"{name} {environment.version} has no packages for Python {found or '?'} ({python}); "
            f"it runs on {one_of(environment.python)}: name one with --python"
        )


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")


@contextlib.contextmanager
def _locked(folder: Path, say: Progress) -> Iterator[None]:
    import fcntl

    try:
        cache.make(folder.parent)
        descriptor = os.open(_lock_file(folder), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise SiteError(f"{folder.parent} cannot be written: {error.strerror}; set TRAINMARK_CACHE") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder.name} is being made by another process; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def choose(name: str, wanted: str | None, own: str | None, place: str) -> str:
    """The Python of a framework's ranks: the site's own, an environment, or this one if the framework is in it.

    `wanted` is the version that the case names, `own` the Python that the site names.
    """
    environment = catalogue()[name]
    made = None if own else python_of(name)
    if made:
        if wanted and not _fits(wanted, environment.version):
            raise SiteError(
                f"{place}: the environment `{name}` has version {environment.version}, the case asks for {wanted}; "
                f"name a Python that has it in the site: `pythons: {{{name}: /path/to/python}}`"
            )
        return made
    python = own or sys.executable
    if not has(python, environment.module):
        cure = f"`trainmark env create {name}` makes an environment with {environment.version} ({environment.size})"
        if wanted and not _fits(wanted, environment.version):
            cure += f", and for {wanted}, name a Python in the site: `pythons: {{{name}: /path/to/python}}`"
        raise SiteError(f"{place}: {name} is not installed in {python}; {cure}")
    return python


def _fits(wanted: str, found: str) -> bool:
    return found == wanted or found.startswith(wanted + ".")


def has(python: str, module: str, env: Mapping[str, str] | None = None) -> bool:
    """Whether a program in this Python could import it; `env` is what its environment has beyond ours."""
    if python == sys.executable and "PYTHONPATH" not in (env or {}):
        import importlib.util

        return importlib.util.find_spec(module) is not None
    import subprocess

    # Not -I: the user's own PYTHONPATH counts, as it does for the ranks.
    ask = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    full = {**os.environ, **(env or {})}
    try:
        # Relative names of the interpreter are the caller's; modules of the caller's folder are not looked for.
        argv = [os.path.abspath(python) if "/" in python else python, "-c", ask]
        done = subprocess.run(argv, env=full, cwd="/", capture_output=True, timeout=60, check=False)
    except OSError:
        return False
    return done.returncode == 0


def rows() -> list[dict[str, Any]]:
    """For `trainmark env list`."""
    return [
        {
            "name": name,
            "here": "yes" if python_of(name) else "no",
            "version": environment.version,
            "python": f"{environment.python[0]} to {environment.python[-1]}",
            "size": environment.size,
            "title": environment.title,
            "folder": str(home(name)) if python_of(name) else "–",
        }
        for name, environment in catalogue().items()
    ]
