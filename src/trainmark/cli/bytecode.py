"""The byte code that `run` needs, in one file beside the byte code that Python keeps.

Python looks each module up in its folder, opens its file and checks it: a twentieth of all work of a small run.
Here each costs one look at its source, whose time and size must be what they were, as Python itself asks.
"""

from __future__ import annotations

import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

TYPE_CHECKING = False  # that of `typing` would import it
if TYPE_CHECKING:
    from types import CodeType

    # Module → its source below the package, the source's time and size, its byte code.
    Kept = dict[str, tuple[str, tuple[int, int] | None, bytes]]

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_FILE = os.path.join(_ROOT, "__pycache__", f"run.{sys.implementation.cache_tag}.codes")
_INIT = os.sep + "__init__.py"
_PACKAGE = _ROOT.rpartition(os.sep)[2]
# What may go wrong with a file that is torn, foreign, or of another version.
_BROKEN = (OSError, EOFError, ValueError, TypeError)


class _Loader(SourceFileLoader):
    """Reads a module as Python does, unless what is kept of it still holds."""

    def __init__(self, name: str, path: str, finder: Finder) -> None:
        super().__init__(name, path)
        self._finder = finder

    def get_code(self, fullname: str) -> CodeType | None:
        _, stamp, code = self._finder.kept[fullname]
        if stamp == _stamp(self.path):
            try:
                found: CodeType = marshal.loads(code)  # noqa: S302 - written by us, where Python keeps its own
                return found
            except _BROKEN:
                pass
        self._finder.stale = True
        return super().get_code(fullname)


class Finder:
    """Finds the modules that are kept; whatever else is asked for, others find."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.stale = not kept

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name not in self.kept:
            return None
        source = os.path.join(_ROOT, self.kept[name][0])
        package = source.endswith(_INIT)
        spec = ModuleSpec(name, _Loader(name, source, self), origin=source, is_package=package)
        spec.has_location = True
        if package:
            spec.submodule_search_locations = [source[: -len(_INIT)]]
        return spec


def use() -> Finder:
    """Modules imported from now on are looked for in the file first."""
    finder = Finder(_read())
    sys.meta_path.insert(0, finder)
    return finder


def keep(finder: Finder) -> None:
    """Writes what this process loaded, if nothing was kept or it was old; where that is not possible, nothing."""
    if not finder.stale or sys.dont_write_bytecode:
        return
    draft = f"{_FILE}.{os.getpid()}"
    try:
        with open(draft, "xb") as file:
            file.write(MAGIC_NUMBER + marshal.dumps(_loaded()))
        os.replace(draft, _FILE)
    except OSError:
        pass


def _read() -> Kept:
    try:
        with open(_FILE, "rb") as file:
            content = file.read()
        if not content.startswith(MAGIC_NUMBER):
            return {}
        found = marshal.loads(memoryview(content)[len(MAGIC_NUMBER) :])  # noqa: S302 - see above
        return found if isinstance(found, dict) else {}
    except _BROKEN:
        return {}


def _loaded() -> Kept:
    found: Kept = {}
    for name, module in list(sys.modules.items()):
        loader = getattr(module, "__loader__", None)
        if name.startswith(_PACKAGE + ".") and isinstance(loader, SourceFileLoader):
            stamp, code = _stamp(loader.path), loader.get_code(name)
            if stamp is not None and code is not None:
                found[name] = (os.path.relpath(loader.path, _ROOT), stamp, marshal.dumps(code))
    return found


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_size
