"""The file of a bundle: a tar archive compressed with zstd. Written with the same bytes each time; read within limits,
into a folder of its own, whatever it holds."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec

from trainmark.errors import UserError
from trainmark.extras import load

SUFFIX = ".tmk"
LEVEL = 9
# What reading stops at. A run of 10 million events has about 1.2 GB.
MOST_BYTES = 8 * 1024**3
MOST_FILES = 100_000
# Of bytes in the archive: a text of one repeated line shrinks to a thousandth at most, zeros to much less.
MOST_EXPANSION = 2_000
# Small archives may expand by more before it means anything.
FREE_BYTES = 64 * 1024**2
MOST_NAME = 1_024
_BLOCK = 1024 * 1024
# zstd may ask for a window of gigabytes; none that `write` makes does.
_MOST_WINDOW = 64 * 1024**2


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
    with (
        compressor.stream_writer(out, closefd=False) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path, size, content in files:
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.mtime = size, 0o644, 0
            tar.addfile(info, _Stream(content))


class _Stream(io.RawIOBase):
    """Pieces of bytes as a file that is read once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self._rest = iter(pieces), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, missing = [], size
        while missing:
            if not self._rest:
                self._rest = next(self._pieces, b"")
                if not self._rest:
                    break
            part, self._rest = self._rest[:missing], self._rest[missing:]
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def unpack(path: Path, folder: Path) -> dict[str, Member]:
    """All files of the archive into a new folder. NotABundle when anything about it is not as `write` makes it: then
    nothing outside the folder was touched."""
    zstd = load("zstandard", "a bundle")
    found: dict[str, Member] = {}
    try:
        allowed = min(MOST_BYTES, max(FREE_BYTES, path.stat().st_size * MOST_EXPANSION))
        with path.open("rb") as file:
            for name, info, content in _members(file, path):
                if name in found:
                    raise NotABundle(f"{path}: `{name}` stands in it twice")
                if len(found) >= MOST_FILES:
                    raise NotABundle(f"{path}: more than {MOST_FILES:,} files")
                allowed -= info.size
                if allowed < 0:
                    raise NotABundle(f"{path}: unpacked, it is larger than can be true of a bundle of its size")
                found[name] = _save(folder / name, info.size, content, path)
    except (tarfile.TarError, zstd.ZstdError, EOFError, ValueError, UnicodeError) as error:
        raise NotABundle(f"{path}: cannot be read as a bundle: {error}") from None
    except OSError as error:
        raise NotABundle(f"{error.filename or path}: {error.strerror or error}") from None
    return found


def _members(file: IO[bytes], path: Path) -> Iterator[tuple[str, tarfile.TarInfo, IO[bytes]]]:
    zstd = load("zstandard", "a bundle")
    stream = zstd.ZstdDecompressor(max_window_size=_MOST_WINDOW).stream_reader(file, read_across_frames=True)
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for info in tar:
            yield _safe(info, path), info, _content(tar, info)
    # tar fills its last record with zeros.
    rest = stream.read(2 * tarfile.RECORDSIZE)
    if len(rest) == 2 * tarfile.RECORDSIZE or rest.strip(b"\0"):
        raise NotABundle(f"{path}: something follows its end")


def _safe(info: tarfile.TarInfo, path: Path) -> str:
    """The name, if the member is a plain file inside the archive's own folder."""
    name = info.name
    shown = name[:100].encode("unicode_escape").decode()
    if not info.isreg() or info.issparse():
        raise NotABundle(f"{path}: `{shown}` is not a plain file")
    pure = PurePosixPath(name)
    plain = len(name.encode("utf-8", "surrogateescape")) <= MOST_NAME and name == str(pure) and name.isprintable()
    if not plain or pure.is_absolute() or ".." in pure.parts or "\\" in name:
        raise NotABundle(f"{path}: `{shown}` is not a name that a bundle may have")
    return name


def _content(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(info)
    assert content is not None  # noqa: S101  (a plain file has content)
    return content


def _save(target: Path, size: int, content: IO[bytes], path: Path) -> Member:
    digest, left = hashlib.sha256(), size
    target.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as out:
        while left:
            block = content.read(min(left, _BLOCK))
            if not block:
                raise NotABundle(f"{path}: ends in the middle of `{target.name}`")
            digest.update(block)
            out.write(block)
            left -= len(block)
    return Member(size, digest.hexdigest())


def digest_of(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with one spelling: keys sorted, no spaces."""
    return msgspec.json.encode(value, order="deterministic")


def from_bytes(files: Mapping[str, bytes]) -> list[tuple[str, int, Iterable[bytes]]]:
    """Small files as members."""
    return [(path, len(content), [content]) for path, content in sorted(files.items())]
