"""The file of a bundle: a tar archive compressed with zstd. Written with the same bytes each time; read within limits,
into a folder of its own, whatever it holds.

The archive is read by its own few lines instead of by `tarfile`, which takes every kind of member that there ever was,
and reads headers of any size into memory."""

from __future__ import annotations

import hashlib
import os
import tarfile
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec

from trainmark.errors import UserError
from trainmark.extras import load

SUFFIX = ".tmk"
# Of events, level 9 saves 3 % and takes half as long again.
LEVEL = 6
# What reading stops at. A run of 10 million events has about 1.2 GB.
MOST_BYTES = 8 * 1024**3
MOST_FILES = 100_000
# Of bytes in the archive: a text of one repeated line shrinks to a thousandth at most, zeros to much less.
MOST_EXPANSION = 2_000
# Small archives may expand by more before it means anything.
FREE_BYTES = 64 * 1024**2
MOST_NAME = 1_024
MOST_FOLDERS = 15
_BLOCK = 1024 * 1024
# zstd may ask for a window of gigabytes; none that `write` makes does.
_MOST_WINDOW = 64 * 1024**2
# A block of zstd holds up to 128 KiB; an archive of more blocks than this is made of empty ones.
_MOST_BLOCKS = 1_000_000
# Of trainmark's own files, whose names are ASCII; only programs have names that people gave them.
_OURS = "runs/"


class NotABundle(UserError):
    """The file is no bundle, or one that cannot be read whole."""


class Member(msgspec.Struct, frozen=True):
    """A file as it came out of the archive."""

    size: int
    sha256: str


def write(out: IO[bytes], files: Iterable[tuple[str, int, Iterable[bytes]]]) -> None:
    """Members in the order given: path, size, content. No time, owner or mode of this machine is written."""
    zstd = load("zstandard", "a bundle")
    compressor = zstd.ZstdCompressor(level=LEVEL, write_checksum=True)
    with compressor.stream_writer(out, closefd=False) as packed:
        at = 0
        for path, size, content in files:
            at += packed.write(_header(path, size))
            written = sum(packed.write(piece) for piece in content)
            if written != size:
                raise UserError(f"{path}: changed while it was packed; pack it again")
            at += written + packed.write(bytes(-size % tarfile.BLOCKSIZE))
        end = 2 * tarfile.BLOCKSIZE
        packed.write(bytes(end + -(at + end) % tarfile.RECORDSIZE))


def _header(path: str, size: int) -> bytes:
    if not is_name(path):
        raise UserError(f"{path!r}: a file of this name cannot be packed; rename it")
    info = tarfile.TarInfo(path)
    info.size, info.mode, info.mtime = size, 0o644, 0
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")


def unpack(path: Path, folder: Path) -> dict[str, Member]:
    """All files of the archive into a new folder. NotABundle when anything about it is not as `write` makes it: then
    nothing outside the folder was touched."""
    zstd = load("zstandard", "a bundle")
    found: dict[str, Member] = {}
    looks: set[str] = set()
    try:
        size = path.stat().st_size
        allowed = min(MOST_BYTES, max(FREE_BYTES, size * MOST_EXPANSION))
        with path.open("rb") as file:
            if _end_of_frame(file) != size:
                raise ValueError("something follows its end")
            file.seek(0)
            stream = zstd.ZstdDecompressor(max_window_size=_MOST_WINDOW).stream_reader(file, closefd=False)
            for name, length in _members(stream):
                look = unicodedata.normalize("NFKC", name)
                if look in looks:
                    raise ValueError(f"`{name}` stands in it twice")
                if len(found) >= MOST_FILES:
                    raise ValueError(f"more than {MOST_FILES:,} files")
                allowed -= length
                if allowed < 0:
                    raise ValueError("unpacked, it is larger than can be true of a bundle of its size")
                looks.add(look)
                found[name] = _save(folder / name, length, stream)
    except (tarfile.TarError, zstd.ZstdError, ValueError) as error:
        raise NotABundle(f"{path}: not a bundle: {error}") from None
    except OSError as error:
        raise NotABundle(f"{path}: cannot be unpacked: {error.strerror or error}") from None
    return found


def _end_of_frame(file: IO[bytes]) -> int:
    """Where the first frame of zstd ends, by the lengths of its blocks: whatever follows would be unpacked by some
    programs and passed over by others."""
    zstd = load("zstandard", "a bundle")
    head = file.read(32)
    at: int = zstd.frame_header_size(head)
    for _ in range(_MOST_BLOCKS):
        file.seek(at)
        block = int.from_bytes(_exactly(file, 3), "little")
        # A block of one repeated byte is 1 byte long, whatever it stands for.
        at += 3 + (1 if block >> 1 & 3 == 1 else block >> 3)
        if block & 1:
            return at + (4 if zstd.get_frame_parameters(head).has_checksum else 0)
    raise ValueError("made of too many blocks")


def _members(stream: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Name and size of each member; whoever asks for the next one has read the content of the last."""
    while any(header := _exactly(stream, tarfile.BLOCKSIZE)):
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        name = info.name
        if info.type == tarfile.XHDTYPE:
            name = _long_name(stream, info)
            info = tarfile.TarInfo.frombuf(_exactly(stream, tarfile.BLOCKSIZE), "utf-8", "strict")
        shown = name[:100].encode("unicode_escape").decode()
        if info.type != tarfile.REGTYPE or info.linkname or info.size < 0:
            raise ValueError(f"`{shown}` is not a plain file")
        if (info.mode, info.uid, info.gid, info.mtime, info.uname, info.gname) != (0o644, 0, 0, 0, "", ""):
            raise ValueError(f"`{shown}` has a time, an owner or a mode")
        if not is_name(name):
            raise ValueError(f"`{shown}` is not a name that a bundle may have")
        yield name, info.size
        if any(_exactly(stream, -info.size % tarfile.BLOCKSIZE)):
            raise ValueError(f"something stands between `{shown}` and what follows it")
    # tar fills its last record with zeros.
    rest = stream.read(2 * tarfile.RECORDSIZE)
    if not tarfile.BLOCKSIZE <= len(rest) <= tarfile.RECORDSIZE or any(rest) or stream.read(1):
        raise ValueError("something follows its end")


def _long_name(stream: IO[bytes], info: tarfile.TarInfo) -> str:
    """A name that has no room in a header, or is not ASCII: one record, `LENGTH path=NAME`."""
    if not 0 < info.size <= MOST_NAME + 64:
        raise ValueError("a header is longer than any name")
    record = _exactly(stream, info.size)
    if any(_exactly(stream, -info.size % tarfile.BLOCKSIZE)):
        raise ValueError("something follows a name")
    prefix = b"%d path=" % info.size
    if not record.startswith(prefix) or not record.endswith(b"\n"):
        raise ValueError("a header tells something else than a name")
    return record[len(prefix) : -1].decode()


def _exactly(stream: IO[bytes], size: int) -> bytes:
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            raise ValueError("it ends too early")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def is_name(name: str) -> bool:
    """Whether a member may be called so: a path inside the archive's own folder, with one spelling."""
    pure = PurePosixPath(name)
    return (
        name == str(pure)
        and 0 < len(name.encode("utf-8", "surrogatepass")) <= MOST_NAME
        and len(pure.parts) <= MOST_FOLDERS
        and name.isprintable()
        and unicodedata.is_normalized("NFC", name)
        and (name.isascii() or not name.startswith(_OURS))
        and not (pure.is_absolute() or pure.parts[:1] == () or ".." in pure.parts or "\\" in name)
    )


def _save(target: Path, size: int, content: IO[bytes]) -> Member:
    digest, left = hashlib.sha256(), size
    target.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as out:
        while left:
            block = _exactly(content, min(left, _BLOCK))
            digest.update(block)
            out.write(block)
            left -= len(block)
    return Member(size, digest.hexdigest())


def canonical(value: Any) -> bytes:
    """JSON with one spelling: no spaces, fields of records in their order, other keys sorted."""
    return msgspec.json.encode(value, order="deterministic")
