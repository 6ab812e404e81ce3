"""Reading files that nobody vouches for: bounded lines, any bytes, compressed or cut off, odd folders."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from trainmark.extras import load
from trainmark.interop.reading import archive
from trainmark.interop.reading.archive import shown
from trainmark.interop.reading.records import Counted, Flag, Kept

LONGEST_LINE = 1 << 20
DEEPEST = 64
_CHUNK = 1 << 20
# LoggedEvent from their content, not from their names.
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")

Say = Callable[[Flag], None]
Progress = Callable[[int], None]


def find(top: Path, wants: Callable[[str], bool], say: Say) -> list[tuple[str, Path]]:
    """(relative name, path) of every wanted file, sorted by name. Links and special files are passed over and flagged.

    Links are never followed below `top`: a tree from elsewhere must not pull in files of this machine, nor make a loop.
    """
    if not top.is_dir():
        return [(top.name, top)]
    found: list[tuple[str, Path]] = []
    folders = [(top, "", 0)]
    while folders:
        folder, prefix, depth = folders.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = prefix + entry.name
                    if entry.is_symlink():
                        if wants(name):
                            say(Flag("link", shown(name), "a link, not followed"))
                    elif entry.is_dir(follow_symlinks=False):
                        if depth < DEEPEST:
                            folders.append((Path(entry.path), name + "/", depth + 1))
                        else:
                            say(Flag("too deep", shown(name), f"more than {DEEPEST} folders deep, not looked into"))
                    elif wants(name):
                        found.append((name, Path(entry.path)))
        except OSError as error:
            say(Flag("unreadable", shown(prefix or str(top)), error.strerror or str(error)))
    return sorted(found)


def keep_all(
    top: Path, wants: Callable[[str], bool], into: Path, say: Say, progress: Progress | None = None
) -> list[Kept]:
    """Copies of all wanted files of a file, a folder, or an archive, sorted by name. `progress` hears how many."""
    whole = top.resolve()
    kept: list[Kept] = []
    kind = None if whole.is_dir() else _archive_kind(whole)
    if kind in ("zip", "tar"):
        above = whole.name.partition(".")[0]

        def take(name: str, stream: IO[bytes]) -> None:
            kept.append(_copy(name, stream, into, above))
            if progress is not None:
                progress(len(kept))

        archive.each_member(whole, kind, wants, say, take)
        return sorted(kept, key=lambda file: file.name)
    above = whole.name if whole.is_dir() else whole.parent.name
    for name, path in find(top, wants, say):
        file = keep(name, path, into, say, above)
        if file is not None:
            kept.append(file)
            if progress is not None:
                progress(len(kept))
    return kept


def _open(path: Path) -> IO[bytes]:
    # Without O_NONBLOCK a pipe with no writer would hold us for ever.
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _archive_kind(path: Path) -> str | None:
    if not path.is_file():
        return None
    try:
        with _open(path) as stream:
            return archive.kind_of(stream.read(4096))
    except OSError:
        # `keep` says what is the matter.
        return None


def keep(name: str, path: Path, into: Path, say: Say, above: str = "") -> Kept | None:
    """Copies a file to `into`/<sha256 of its bytes>; None, and a flag, for what is no plain file."""
    place = shown(name)
    try:
        stream = _open(path)
    except OSError as error:
        say(Flag("unreadable", place, error.strerror or str(error)))
        return None
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            say(Flag("no plain file", place, "a pipe, device or socket, passed over"))
            return None
        head = stream.read(4096)
        if head.startswith(_UTF_16):
            say(
                Flag(
                    "encoding",
                    place,
                    "looks like UTF-16, which is not read: convert it with `iconv -f utf-16 -t utf-8`",
                )
            )
        if b"\r" in head and b"\n" not in head:
            text = "its lines end with CR alone, which makes one line of it: convert it with `tr '\\r' '\\n'`"
            say(Flag("line ends", place, text))
        kind = archive.kind_of(head)
        if kind is not None:
            say(Flag("archive", place, f"a {kind} archive, passed over: import it by itself, or unpack it"))
            return None
        stream.seek(0)
        return _copy(name, stream, into, above)


def _copy(name: str, stream: IO[bytes], into: Path, above: str) -> Kept:
    into.mkdir(exist_ok=True)
    part, digest, size = into / ".part", hashlib.sha256(), 0
    with part.open("wb") as out:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
            out.write(chunk)
    kept = into / digest.hexdigest()
    part.replace(kept)
    return Kept(shown(name), kept, digest.hexdigest(), size, shown(above))


def is_packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(4).startswith((_GZIP, _ZSTD))


def source_hash(files: list[Kept]) -> str:
    """One hash for one file (its own), or for a folder (of names and hashes)."""
    if len(files) == 1:
        return files[0].sha256
    listing = "".join(f"{file.sha256}  {file.name}\n" for file in files)
    return hashlib.sha256(listing.encode()).hexdigest()


class Lines:
    """The lines of one file, each counted once: `take` it, pass it over, or `flag` it.

    Iterating gives (number, text). A line that is neither taken nor flagged when the next one is asked for is `other`:
    no record. So lines in = taken + other + flagged, whatever the file holds.
    """

    def __init__(self, kept: Kept, longest: int = LONGEST_LINE) -> None:
        self.place = kept.name
        self.torn = False
        self.flags: list[Flag] = []
        self._kept, self._longest = kept, longest
        self._lines = self._taken = self._flagged = self._broken = 0
        self._settled = True

    def __iter__(self) -> Iterator[tuple[int, str]]:
        try:
            with opened(self._kept.path) as stream:
                yield from self._each(stream)
        except (EOFError, zlib.error) as error:
            self.remark("cut off", self._lines, f"the compressed data ends early or is broken: {error}")
        except OSError as error:
            # gzip says a wrong checksum this way.
            self.remark("unreadable", self._lines, error.strerror or str(error))
        if self._broken:
            self.remark("broken text", self._lines, f"{self._broken} line(s) hold bytes that are no UTF-8")

    def _each(self, stream: IO[bytes]) -> Iterator[tuple[int, str]]:
        limit = self._longest
        readline = stream.readline
        while data := readline(limit + 1):
            self._lines += 1
            if len(data) > limit and data[-1:] != b"\n":
                while (rest := readline(limit)) and rest[-1:] != b"\n":
                    pass
                self._settled = False
                self.flag("long line", f"longer than {limit} bytes, left out")
                continue
            self.torn = data[-1:] != b"\n"
            try:
                text = data.decode()
            except UnicodeDecodeError:
                self._broken += 1
                text = data.decode(errors="replace")
            self._settled = False
            yield self._lines, text.rstrip("\r\n")
            self._settled = True

    def take(self) -> None:
        """The present line is a record and is used."""
        if not self._settled:
            self._settled = True
            self._taken += 1

    def flag(self, kind: str, text: str) -> None:
        """The present line is a record, or looks like one, and is left out."""
        if self._settled:
            return
        self._flagged += 1
        self._settled = True
        self.flags.append(Flag(kind, f"{self.place}:{self._lines}", text, 1))

    def remark(self, kind: str, line: int, text: str) -> None:
        """Something to know about lines that were taken."""
        self.flags.append(Flag(kind, f"{self.place}:{line}" if line else self.place, text))

    def said(self) -> Iterator[Flag]:
        """What was flagged since the last call: to be given on while reading, so that it never piles up."""
        flags, self.flags = self.flags, []
        yield from flags

    def counted(self) -> Counted:
        other = self._lines - self._taken - self._flagged
        return Counted(self.place, self._lines, self._taken, other, self._flagged)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """What a file holds, unpacked."""
    with path.open("rb") as plain:
        head = plain.read(4)
        plain.seek(0)
        if head.startswith(_GZIP):
            import gzip

            with gzip.open(plain, "rb") as stream:
                yield io.BufferedReader(_Limited(stream), _CHUNK)  # type: ignore[arg-type]
        elif head.startswith(_ZSTD):
            with _zstd(plain) as stream:
                yield io.BufferedReader(_Limited(stream), _CHUNK)
        else:
            yield plain


class _Limited(io.RawIOBase):
    """What is unpacked, up to a limit: a few bytes can unpack to any number of them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, archive.MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise EOFError(f"it unpacks to more than {archive.MOST_BYTES >> 30} GiB, the rest is left out")
        buffer[: len(data)] = data
        return len(data)


def _zstd(plain: IO[bytes]) -> Any:
    zstandard = load("zstandard", "a file that is compressed with zstd")

    # The package's own stream ends without a word where the data was cut off, and its errors are no OSError.
    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._ready = memoryview(b"")

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            while not self._ready:
                packed = self._frame.unused_data if self._frame.eof else b""
                packed = packed or plain.read(_CHUNK // 16)
                if not packed:
                    if not self._frame.eof:
                        raise EOFError("no end of frame")
                    return 0
                if self._frame.eof:
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    self._ready = memoryview(self._frame.decompress(packed))
                except zstandard.ZstdError as error:
                    raise EOFError(str(error)) from None
            count = min(len(buffer), len(self._ready))
            buffer[:count], self._ready = self._ready[:count], self._ready[count:]
            return count

    return io.BufferedReader(Stream(), _CHUNK)
