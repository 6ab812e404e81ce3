"""Runs at the start of every Python under `trainmark exec`: installs hooks when a framework is imported.

Its folder is first on PYTHONPATH, so it hides any other `sitecustomize`, which it therefore runs itself. It imports
almost nothing: a Python that never imports a framework must not become slower.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Which module installs the hooks of each framework.
_HOOKS = {
    "torch": "trainmark_torch_hooks",
    "jax": "trainmark_jax_hooks",
    "optax": "trainmark_jax_hooks",
    "keras": "trainmark_keras_hooks",
}


class _Finder:
    """Wraps the loader of a framework, so that the hooks are installed after its import."""

    def __init__(self) -> None:
        self._open = set(_HOOKS)  # those that were not imported yet

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._open:
            return None
        self._open.remove(name)
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec: Any = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        self._open.add(name)
        return None


class _Loader:
    """The loader of a framework, which itself sees only its own."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def create_module(self, spec: Any) -> Any:
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        _install(module)


def _install(framework: Any) -> None:
    """Installs the hooks. An error here must never reach the program."""
    folder = os.path.dirname(_here)
    sys.path.insert(0, folder)
    try:
        hooks: Any = __import__(_HOOKS[framework.__name__])
        hooks.install(framework, _spools, _config, _began)
    except Exception as error:
        text = "%s: %s" % (type(error).__name__, error)
        sys.stderr.write("trainmark: training is not measured: %s\n" % text)
        _say("broken %d %s" % (os.getpid(), text))
    finally:
        sys.path.remove(folder)


def _say(text: str) -> None:
    """A line for the agent. A Python that writes none was started with -I, -E or -S."""
    try:
        file = os.open(os.path.join(_spools, "hello"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError:
        return
    try:
        os.write(file, (text + "\n").encode("utf-8", "replace"))
    finally:
        os.close(file)


def _chain() -> None:
    """Runs the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder

    hidden = [entry for entry in sys.path if os.path.abspath(entry) != _here]
    spec = PathFinder.find_spec(__name__, hidden)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules[__name__] = module
        spec.loader.exec_module(module)


_here = os.path.dirname(os.path.abspath(__file__))
_spools = os.environ.get("TRAINMARK_SPOOLS", "")
_config = os.environ.get("TRAINMARK_CONFIG", "")
_began = int(os.environ.get("TRAINMARK_BEGAN") or 0)  # the command, on the monotonic clock
if _spools:
    _say("python %d" % os.getpid())
    sys.meta_path.insert(0, _Finder())
_chain()
