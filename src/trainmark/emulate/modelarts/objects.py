"""Buckets and objects in a folder: content in files of their own, what is known of each beside it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")


class StoreError(Exception):
    """A code of OBS, with the status that goes with it."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Stored(msgspec.Struct, frozen=True):
    """An object: where its content is, and what the answers say of it."""

    key: str
    file: str
    size: int
    etag: str
    modified: float
    content_type: str = "binary/octet-stream"
    metadata: dict[str, str] = {}


class Bucket:
    """One bucket; its records are kept in memory and in one file per object, so that a new emulator finds them."""

    def __init__(self, folder: Path) -> None:
        self.name, self._folder = folder.name, folder
        self._objects: dict[str, Stored] = {}
        for record in (folder / "records").glob("*.json"):
            found = msgspec.json.decode(record.read_bytes(), type=Stored)
            self._objects[found.key] = found

    def get(self, key: str) -> Stored:
        found = self._objects.get(key)
        if found is None:
            raise StoreError(404, "NoSuchKey", "The specified key does not exist.")
        return found

    def path(self, stored: Stored) -> Path:
        return self._folder / "content" / stored.file

    def put(self, key: str, part: Path, etag: str, content_type: str, metadata: dict[str, str]) -> Stored:
        """Takes over the file `part`. Readers of an older object keep what they have open."""
        if not key or len(key.encode()) > 1024:
            raise StoreError(400, "InvalidArgument", "an object's name has 1 to 1024 bytes")
        name = uuid.uuid4().hex
        stored = Stored(key, name, part.stat().st_size, etag, time.time(), content_type, metadata)
        os.replace(part, self.path(stored))
        self._record(key).write_bytes(msgspec.json.encode(stored))
        before = self._objects.get(key)
        self._objects[key] = stored
        if before is not None:
            self.path(before).unlink(missing_ok=True)
        return stored

    def delete(self, key: str) -> None:
        found = self._objects.pop(key, None)
        if found is not None:
            self._record(key).unlink(missing_ok=True)
            self.path(found).unlink(missing_ok=True)

    def below(self, prefix: str) -> list[Stored]:
        return [self._objects[key] for key in sorted(self._objects) if key.startswith(prefix)]

    def _record(self, key: str) -> Path:
        return self._folder / "records" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


class Objects:
    """All buckets. One lock: loopback and small objects need no more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lock = threading.RLock()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._drafts = folder / ".drafts"
        shutil.rmtree(self._drafts, ignore_errors=True)
        self._drafts.mkdir()
        self._buckets = {path.name: Bucket(path) for path in folder.iterdir() if not path.name.startswith(".")}
        # Uploads in several parts: upload → bucket, key, content type, metadata, parts by number.
        self._uploads: dict[str, tuple[str, str, str, dict[str, str], dict[int, tuple[Path, str]]]] = {}

    def names(self) -> list[str]:
        return sorted(self._buckets)

    def create(self, name: str) -> None:
        if not _BUCKET.match(name):
            raise StoreError(400, "InvalidBucketName", "3 to 63 small letters, digits, dots and hyphens")
        with self.lock:
            if name in self._buckets:
                return
            for part in ("records", "content"):
                (self._folder / name / part).mkdir(parents=True)
            self._buckets[name] = Bucket(self._folder / name)

    def remove(self, name: str) -> None:
        with self.lock:
            if self.bucket(name).below(""):
                raise StoreError(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
            del self._buckets[name]
            shutil.rmtree(self._folder / name)

    def bucket(self, name: str) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            raise StoreError(404, "NoSuchBucket", "The specified bucket does not exist")
        return found

    def draft(self, data: bytes) -> tuple[Path, str]:
        """A file with the content, and its MD5, which is what OBS calls an ETag."""
        path = self._drafts / uuid.uuid4().hex
        path.write_bytes(data)
        return path, hashlib.md5(data, usedforsecurity=False).hexdigest()

    def put(
        self, bucket: str, key: str, data: bytes, content_type: str = "", metadata: dict[str, str] | None = None
    ) -> Stored:
        found = self.bucket(bucket)
        part, etag = self.draft(data)
        with self.lock:
            return found.put(key, part, etag, content_type or "binary/octet-stream", metadata or {})

    def read(self, bucket: str, key: str) -> bytes:
        with self.lock:
            found = self.bucket(bucket)
            return found.path(found.get(key)).read_bytes()

    def below(self, bucket: str, prefix: str) -> list[Stored]:
        with self.lock:
            return self.bucket(bucket).below(prefix)

    def copy(self, source: tuple[str, str], bucket: str, key: str) -> Stored:
        with self.lock:
            stored = self.bucket(source[0]).get(source[1])
            return self.put(bucket, key, self.read(*source), stored.content_type, stored.metadata)

    # ---- uploads in several parts

    def begin(self, bucket: str, key: str, content_type: str, metadata: dict[str, str]) -> str:
        self.bucket(bucket)
        upload = uuid.uuid4().hex
        with self.lock:
            self._uploads[upload] = (bucket, key, content_type, metadata, {})
        return upload

    def parts(self, upload: str) -> dict[int, tuple[Path, str]]:
        if upload not in self._uploads:
            raise StoreError(404, "NoSuchUpload", "The specified multipart upload does not exist.")
        return self._uploads[upload][4]

    def add_part(self, upload: str, number: int, data: bytes) -> str:
        parts = self.parts(upload)
        part = self.draft(data)
        with self.lock:
            parts[number] = part
        return part[1]

    def complete(self, upload: str, wanted: list[tuple[int, str]]) -> Stored:
        with self.lock:
            parts = self.parts(upload)
            bucket, key, content_type, metadata, _ = self._uploads[upload]
            numbers = [number for number, _ in wanted]
            if numbers != sorted(set(numbers)) or not numbers:
                raise StoreError(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
            if any(number not in parts or parts[number][1] != etag.strip('"') for number, etag in wanted):
                raise StoreError(400, "InvalidPart", "One or more of the specified parts could not be found.")
            whole = self._drafts / uuid.uuid4().hex
            with whole.open("wb") as out:
                for number in numbers:
                    out.write(parts[number][0].read_bytes())
            digests = b"".join(bytes.fromhex(parts[number][1]) for number in numbers)
            etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(numbers)}"
            stored = self.bucket(bucket).put(key, whole, etag, content_type, metadata)
            self.abort(upload)
            return stored

    def abort(self, upload: str) -> None:
        with self.lock:
            for path, _ in self.parts(upload).values():
                path.unlink(missing_ok=True)
            del self._uploads[upload]


def pages(
    found: list[Stored], prefix: str, delimiter: str, after: str, most: int
) -> tuple[list[Stored], list[str], str]:
    """One page of a listing: objects, common prefixes, and the marker of the next page ("" on the last)."""
    objects: list[Stored] = []
    folders: list[str] = []
    last = ""
    for name, stored in _folded(found, prefix, delimiter):
        if name <= after:
            continue
        if len(objects) + len(folders) >= most:
            return objects, folders, last
        last = name
        if stored is None:
            folders.append(name)
        else:
            objects.append(stored)
    return objects, folders, ""


def _folded(found: list[Stored], prefix: str, delimiter: str) -> Iterator[tuple[str, Stored | None]]:
    seen = ""
    for stored in found:
        cut = stored.key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            yield stored.key, stored
        elif stored.key[: cut + len(delimiter)] != seen:
            seen = stored.key[: cut + len(delimiter)]
            yield seen, None
