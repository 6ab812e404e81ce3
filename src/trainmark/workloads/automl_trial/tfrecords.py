"""Pictures in TFRecord shards, read without TensorFlow: an index of where records lie, and just enough of protobuf."""

from __future__ import annotations

import fcntl
import io
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import trainmark_images
from trainmark_images import Batch, Random
from trainmark_job import InputError

# length (8), checksum of the length (4), data, checksum of the data (4)
_HEAD, _TAIL = 12, 4
_POLYNOMIAL, _MASK = 0x82F63B78, 0xA282EAD8
# No picture is larger; a length that is comes from a file that is no TFRecord.
_MOST_BYTES = 1 << 28
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def shards(folder: Path, part: str) -> list[Path]:
    """The files of a part (`train` or `validation`), by name."""
    return sorted(path for path in folder.glob(f"{part}-*-of-*") if path.is_file())


class Records:
    """Labelled pictures. Labels count from 1 in files made for ImageNet; `first` is the smallest label there is."""

    mean = trainmark_images.Folder.mean
    std = trainmark_images.Folder.std

    def __init__(self, files: list[Path], size: int, classes: int, first: int, cache: Path | None = None) -> None:
        self._files, self._size, self._classes, self._first = files, size, classes, first
        self._places = _index(files, cache)

    def __len__(self) -> int:
        return len(self._places)

    def batch(self, indices: Any, random: Random | None) -> Batch:
        read = [self._read(int(index), random) for index in indices]
        pixels = np.stack([pixels for pixels, _ in read])
        labels = np.array([label for _, label in read])
        return Batch(pixels.transpose(0, 3, 1, 2), labels)

    def _read(self, index: int, random: Random | None) -> tuple[Any, int]:
        number, offset, length = (int(value) for value in self._places[index])
        path = self._files[number]
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
        features = example(data, f"{path}, record at {offset}")
        encoded, label = features.get("image/encoded"), features.get("image/class/label")
        if not isinstance(encoded, bytes) or not isinstance(label, int):
            raise InputError(f"{path}: the record at {offset} has no image/encoded and image/class/label")
        if not 0 <= label - self._first < self._classes:
            raise InputError(f"{path}: label {label}; allowed are {self._first} to {self._first + self._classes - 1}")
        named = _Named(encoded, f"{path} at {offset}")
        return trainmark_images.decode(named, self._size, random), label - self._first


class _Named(io.BytesIO):
    """Bytes that say where they came from, for messages."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self._name = name

    def __str__(self) -> str:
        return self._name


def open_records(train: Path, test: Path, size: int, classes: int, cache: Path) -> tuple[Records, Records]:
    """Both parts. Whether labels count from 0 or 1 is found in the validation records."""
    both = [(shards(train, "train"), "train"), (shards(test, "validation") or shards(test, "val"), "validation")]
    for (files, part), folder in zip(both, (train, test), strict=True):
        if not files:
            raise InputError(f"{folder} holds no TFRecord shards ({part}-00000-of-…)")
    first = _first_label(both[1][0], classes)
    made = [Records(files, size, classes, first, cache) for files, _ in both]
    return made[0], made[1]


def _first_label(files: list[Path], classes: int) -> int:
    """0 if any of the first shard's records has that label; files with ImageNet's numbers begin at 1."""
    labels = set()
    for offset, length in _scan(files[0]):
        with files[0].open("rb") as file:
            file.seek(offset)
            label = example(file.read(length), str(files[0])).get("image/class/label")
        if isinstance(label, int):
            labels.add(label)
    return 1 if labels and min(labels) >= 1 and (max(labels) == classes or 0 not in labels) else 0


def _index(files: list[Path], cache: Path | None) -> Any:
    """Shard, offset and length of every record; cached, since a shared file system is slow."""
    stamp = _stamp(files)
    cached = cache / f"tfrecords-{stamp}.npy" if cache else None
    if cached is None:
        return _scan_all(files)
    cached.parent.mkdir(parents=True, exist_ok=True)
    # All ranks of all workers come at once: one makes it, the others wait for it.
    with cached.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not cached.is_file():
            half = cached.with_name(f".{cached.name}.{uuid.uuid4().hex}.npy")
            np.save(half, _scan_all(files))
            half.replace(cached)
    return np.load(cached, allow_pickle=False)


def _scan_all(files: list[Path]) -> Any:
    rows = [(number, offset, length) for number, path in enumerate(files) for offset, length in _scan(path)]
    if not rows:
        raise InputError(f"{files[0].parent} holds no records")
    return np.array(rows, np.int64)


def _stamp(files: list[Path]) -> str:
    import hashlib

    digest = hashlib.sha256()
    for path in files:
        found = path.stat()
        digest.update(f"{path} {found.st_size} {found.st_mtime_ns};".encode())
    return digest.hexdigest()[:16]


def _scan(path: Path) -> list[tuple[int, int]]:
    """Offset and length of each record's data."""
    found, at, size = [], 0, path.stat().st_size
    with path.open("rb") as file:
        while at < size:
            file.seek(at)
            head = file.read(_HEAD)
            length = int.from_bytes(head[:8], "little")
            whole = len(head) == _HEAD and length <= _MOST_BYTES and at + _HEAD + length + _TAIL <= size
            if not whole or int.from_bytes(head[8:], "little") != masked_crc(head[:8]):
                raise InputError(f"{path} is no TFRecord file, or cut short, at byte {at}")
            found.append((at + _HEAD, length))
            at += _HEAD + length + _TAIL
    return found


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def masked_crc(data: bytes) -> int:
    """CRC-32C as TFRecord writes it: rotated and shifted, so that checksums of checksums stay good."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF


# ---- tf.train.Example: { 1: Features { 1: map entry { 1: key, 2: Feature { 1: bytes, 2: floats, 3: integers } } } }


def example(data: bytes, where: str) -> dict[str, bytes | int]:
    """The first value of each feature that has bytes or integers."""
    try:
        return {
            name: value
            for features in _fields(data, 1)
            for entry in _fields(features, 1)
            for name, value in [_feature(entry)]
            if value is not None
        }
    except (IndexError, UnicodeDecodeError, ValueError):
        raise InputError(f"{where}: not a tf.train.Example") from None


def _feature(entry: bytes) -> tuple[str, bytes | int | None]:
    name = _fields(entry, 1)[0].decode()
    for feature in _fields(entry, 2):
        for values in _fields(feature, 1):
            return name, next(iter(_fields(values, 1)), None)
        for values in _fields(feature, 3):
            packed = _walk(values)
            for number, kind, value in packed:
                if number == 1:
                    return name, _varint(value, 0)[0] if kind == _BYTES else int.from_bytes(value, "little")
    return name, None


def _fields(data: bytes, wanted: int) -> list[bytes]:
    return [value for number, kind, value in _walk(data) if number == wanted and kind == _BYTES]


def _walk(data: bytes) -> list[tuple[int, int, bytes]]:
    found, at = [], 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            found.append((key >> 3, kind, value.to_bytes(10, "little")))
            continue
        length = {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if kind == _BYTES:
            length, at = _varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError("cut short")
        found.append((key >> 3, kind, data[at : at + length]))
        at += length
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
        if shift > 63:
            raise ValueError("no number")
