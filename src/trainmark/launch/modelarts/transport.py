"""The object store as the way home: what workers wrote, as far as it is new, into the folders of their nodes here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trainmark.agent.digests import of_file
from trainmark.agent.modelarts.worker import EXIT
from trainmark.launch.modelarts.object_store import Listed, ObjectStore
from trainmark.store.files import read_json, write_all, write_json, write_whole
from trainmark.store.rundir import CLAIM, CONTROL, NODE_PLAN, RESULT

# Written here, or of no use here.
_NOT_TAKEN = (NODE_PLAN, CONTROL, EXIT, "reserve")


class ObjectStoreTransport:
    """A Transport of one node; `take` gets what a listing of the whole job showed of it."""

    def __init__(self, store: ObjectStore, bucket: str, prefix: str, folder: Path) -> None:
        self._store, self._bucket, self.prefix, self._folder = store, bucket, prefix, folder
        self._tags: dict[str, str] = {}
        self._hosted = False

    def send(self, order: dict[str, Any]) -> None:
        """Orders stand here; what a worker can be told is to end, and the service tells it."""
        write_json(self._folder / CONTROL, order)

    def fetch(self) -> None:
        self.take(list(self._store.below(self._bucket, self.prefix)))

    def take(self, listed: list[Listed]) -> None:
        """The result comes last: whoever sees it finds everything else beside it."""
        for one in sorted(listed, key=lambda one: one.key == self.prefix + RESULT):
            name = one.key[len(self.prefix) :]
            if self._tags.get(name) == one.tag or not _is_taken(name):
                continue
            take_file(self._store, self._bucket, one, self._folder / name)
            self._tags[name] = one.tag
        if not self._hosted:
            self._note_host()

    def _note_host(self) -> None:
        """The service has chosen the host; the plan here says which, as it does for every launcher."""
        claim, plan = read_json(self._folder / CLAIM), read_json(self._folder / NODE_PLAN)
        if isinstance(claim, dict) and isinstance(plan, dict) and claim.get("host"):
            write_json(self._folder / NODE_PLAN, {**plan, "host": str(claim["host"])}, mode=0o600)
            self._hosted = True

    def missing(self) -> list[str]:
        """Files that the node's result names and that are not here as they were there. One that was taken while it
        grew is fetched once more."""
        return [name for name in self._different() if not self._again(name)]

    def _different(self) -> list[str]:
        result = read_json(self._folder / RESULT)
        files = result.get("files") if isinstance(result, dict) else None
        named = files if isinstance(files, dict) else {}
        return [name for name, about in named.items() if not _is_same(self._folder / name, about)]

    def _again(self, name: str) -> bool:
        found = [one for one in self._store.below(self._bucket, self.prefix + name) if one.key == self.prefix + name]
        if not found or not _is_taken(name):
            return False
        (self._folder / name).unlink(missing_ok=True)
        take_file(self._store, self._bucket, found[0], self._folder / name)
        return name not in self._different()


def take_file(store: ObjectStore, bucket: str, listed: Listed, path: Path) -> None:
    """The whole object, or, of a file that grows, what is not here yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix not in (".jsonl", ".log"):
        write_whole(path, store.get(bucket, listed.key))
        return
    size = path.stat().st_size if path.is_file() else 0
    if not path.exists() or size > listed.size:  # new, or it has begun again
        write_whole(path, store.get(bucket, listed.key))
    elif size < listed.size:
        data = store.get(bucket, listed.key, size)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_all(handle, data)
        finally:
            os.close(handle)


def _is_taken(name: str) -> bool:
    parts = Path(name).parts
    return bool(parts) and ".." not in parts and not name.startswith("/") and name not in _NOT_TAKEN and name[-1] != "/"


def _is_same(path: Path, about: Any) -> bool:
    if not isinstance(about, dict) or not path.is_file() or path.is_symlink():
        return False
    digest = about.get("sha256")
    return path.stat().st_size == about.get("bytes") and (digest is None or of_file(str(path)) == digest)
