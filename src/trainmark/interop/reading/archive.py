"""Reading the members of an archive without ever unpacking it: a member's name is a label here, never a path."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from trainmark.interop.reading.records import Flag

# A few bytes can unpack to any number of them.
MOST_BYTES = 1 << 36
MOST_MEMBERS = 1_000_000

_MARKS = ((0, b"PK\x03\x04", "zip"), (257, b"ustar", "tar"), (0, b"7z\xbc\xaf", "7z"))
_PACKED_TARS = (b"BZh", b"\xfd7zXZ\x00")
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)

Say = Callable[[Flag], None]


def kind_of(head: bytes) -> str | None:
    """zip, tar or 7z, told from the first bytes; None for what is no archive."""
    if head.startswith(b"\x1f\x8b"):
        try:
            head = zlib.decompressobj(31).decompress(head, 512)
        except zlib.error:
            return None
    if head.startswith(_PACKED_TARS):
        return "tar"
    return next((kind for at, mark, kind in _MARKS if head[at:].startswith(mark)), None)


def each_member(
    path: Path, kind: str, wants: Callable[[str], bool], say: Say, take: Callable[[str, IO[bytes]], None]
) -> None:
    """Gives `take` name and content of every wanted member. Of a broken archive, what comes before the break."""
    left = MOST_BYTES
    try:
        for count, (told, size, opened) in enumerate(_zip(path) if kind == "zip" else _tar(path)):
            name = _name(told)
            if count >= MOST_MEMBERS or size > left:
                limit = f"{MOST_BYTES >> 30} GiB or {MOST_MEMBERS:,} members"
                say(Flag("too large", path.name, f"the archive holds more than {limit}; the rest is left out"))
                return
            left -= size  # what is passed over has to be unpacked as well
            if told.endswith("/") or not wants(name):
                continue
            if opened is None:
                say(Flag("link", shown(name), "a link, pipe or device in an archive, passed over"))
                continue
            if told.startswith(("/", "\\")) or ".." in told.replace("\\", "/").split("/"):
                say(Flag("path", shown(name), f"the archive calls it {shown(told)!r}; nothing is written there"))
            with opened() as stream:
                take(name, stream)
    except _BROKEN as error:
        # RuntimeError is how zipfile says that a member has a password.
        say(Flag("broken archive", path.name, str(error)))
    except OSError as error:
        # Decompressors fail without a number; a full disk has one.
        if error.errno:
            raise
        say(Flag("broken archive", path.name, str(error)))


Found = tuple[str, int, Callable[[], IO[bytes]] | None]


def _zip(path: Path) -> Iterator[Found]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # The upper half holds the file's mode: links are files whose content is a path.
            link = (info.external_attr >> 16) & 0o170000 == 0o120000
            opened = None if link else (lambda info=info: archive.open(info))
            yield info.filename, info.file_size, opened


def _tar(path: Path) -> Iterator[Found]:
    # `r|*` reads straight on, whatever it is compressed with: nothing is survey up by name.
    with tarfile.open(path, "r|*") as archive:
        for info in archive:
            opened = (lambda info=info: _content(archive, info)) if info.isreg() else None
            yield info.name + "/" * info.isdir(), info.size, opened


def _content(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = archive.extractfile(info)
    if stream is None:
        raise tarfile.ReadError(f"{info.name}: no content")
    return stream


def shown(name: str) -> str:
    """A name from elsewhere as text that can be printed and stored."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _name(text: str) -> str:
    """Without what would lead out of a folder, should anybody ever take it for a path."""
    return "/".join(part for part in text.replace("\\", "/").split("/") if part not in ("", ".", ".."))
