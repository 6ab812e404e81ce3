"""A file that somebody else writes, read forward in whole lines. Whoever writes it may be hostile or broken."""

from __future__ import annotations

import errno
import os
import stat

_READ = 1 << 22
LONGEST = 1 << 20  # of a line, in bytes: no event comes near it
_REFUSED = (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EACCES, errno.EPERM, errno.ENOTDIR)


def open_plain(path: str) -> int:
    """A descriptor to read a plain file; anything else (OSError ENODEV) is never waited for and never followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ENODEV, "not a plain file", path)
    return descriptor


class Lines:
    """Whole lines as they come; those longer than `LONGEST` are dropped and counted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._tail = bytearray()  # grows in place: a line that comes in many pieces is not copied each time
        self._skipping = False  # inside a line that is too long
        self.refused: str | None = None  # why the file is not read at all
        self.long = 0
        self.moved = False  # the last `take` found new bytes, be they whole lines or not

    @property
    def torn(self) -> bool:
        return bool(self._tail)

    def take(self) -> bytes:
        """The whole lines that are new."""
        data = self._read()
        self.moved = bool(data)
        if self._skipping:
            end = data.find(b"\n") + 1
            self._skipping = not end
            data = data[end:] if end else b""
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._keep(data)
            return b""
        chunk = bytes(self._tail) + data[:cut]
        self._tail = bytearray()
        self._keep(data[cut:])
        return chunk if len(chunk) <= LONGEST else self._short(chunk)

    def _keep(self, rest: bytes) -> None:
        """What has no end yet."""
        self._tail += rest
        if len(self._tail) > LONGEST:
            self._tail = bytearray()
            self._skipping = True
            self.long += 1

    def _short(self, chunk: bytes) -> bytes:
        lines = chunk.split(b"\n")
        kept = [line for line in lines if len(line) < LONGEST]
        self.long += len(lines) - len(kept)
        return chunk if len(kept) == len(lines) else b"\n".join(kept)

    def _read(self) -> bytes:
        if self._fd < 0 and not self._open():
            return b""
        return os.read(self._fd, _READ)

    def _open(self) -> bool:
        if self.refused is not None:
            return False
        try:
            self._fd = open_plain(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            self.refused = error.strerror
            return False
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
