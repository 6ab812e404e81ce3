"""The node side as one file: `trainmark-node-<hash>.pyz`, the same bytes for the same sources."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import zipfile
from pathlib import Path

import trainmark
from trainmark import cache

_PACKAGE = Path(trainmark.__file__).resolve().parent
_MAIN = b"from trainmark.agent.main import entry\n\nentry()\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def sources() -> list[Path]:
    """What goes into the zip: the agent, the probe, and the half of `devices` that nodes use."""
    rooms = [file for room in ("agent", "probe") for file in (_PACKAGE / room).rglob("*.py")]
    halves = [file for file in (_PACKAGE / "devices").glob("*/*.py") if file.name != "device.py"]
    devices = [_PACKAGE / "devices" / "__init__.py", *halves]
    return sorted([_PACKAGE / "__init__.py", *rooms, *devices])


def build() -> bytes:
    """A zip application. No times and no order of the file system in it, so its hash names its content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN)
        for file in sources():
            _add(archive, str(Path("trainmark") / file.relative_to(_PACKAGE)), file.read_bytes())
    return b"#!/usr/bin/env python3\n" + buffer.getvalue()


def _print_sources() -> None:
    """For checks that must look at every file of the node side and at no other."""
    import sys

    sys.stdout.write(" ".join(str(file) for file in sources()) + "\n")


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


def name() -> str:
    """A name that changes with the content."""
    return _named(_built())


@functools.cache
def _built() -> bytes:
    return build()


def _named(content: bytes) -> str:
    return f"trainmark-node-{hashlib.sha256(content).hexdigest()[:16]}.pyz"


def write(folder: Path) -> Path:
    """The zip in `folder`."""
    content = _built()
    path = folder / _named(content)
    # Its name says what must be in it; a file that something else was put into is made again.
    if not path.is_file() or path.read_bytes() != content:
        cache.make(folder)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(content)
        part.chmod(0o755)
        part.replace(path)
    return path


if __name__ == "__main__":
    _print_sources()
