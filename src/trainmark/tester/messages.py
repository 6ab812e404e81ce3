"""Messages between subject and tester: every request and every answer is signed with Ed25519.

A request says for which tester it is, who sends it, when, its number in a session, and the digest of its body.
The tester looks at all of that before it reads the body. Numbers of a session only grow, and what is older than
`WINDOW` is refused, so no message is heard twice. An answer repeats the request's nonce, so none is believed twice.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trainmark.reasons import Reason, reason
from trainmark.store.files import BROKEN, write_all, write_whole
from trainmark.trust import keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PROTOCOL = "trainmark-tester/1"
# Seconds by which the clocks of both may differ.
WINDOW = 300
MOST_TEXT = 1 << 20
# The file of messages that were heard is written anew when it has so many lines, and twice as many as it had then.
_LEAST_LINES = 10_000
_PREFIX = "X-Trainmark-"
SIGNATURE = f"{_PREFIX}Signature"
_FORMS = {
    "key": "[0-9a-f]{64}",
    "time": "[0-9]{1,16}",
    "nonce": "[0-9a-f]{32}",
    "session": "[0-9a-f]{32}",
    "sequence": "[0-9]{1,12}",
    "length": "[0-9]{1,16}",
    "digest": "[0-9a-f]{64}",
    "signature": "[0-9a-f]{128}",
}
_TARGET = re.compile(r"/v1/[a-z0-9/-]{1,100}")


class Refused(Exception):
    """A message that is not believed, and the status of the answer to it."""

    def __init__(self, status: int, why: Reason) -> None:
        super().__init__(why.code)
        self.status, self.why = status, why


class Request(msgspec.Struct, frozen=True):
    """The signed part of a request; `time` in seconds."""

    target: str
    key: str
    time: int
    nonce: str
    session: str
    sequence: int
    length: int
    digest: str

    @property
    def sender(self) -> str:
        return keys.fingerprint(bytes.fromhex(self.key))

    def signed(self, audience: str) -> bytes:
        """`audience`: fingerprint of the tester's key."""
        parts = (self.target, self.key, self.time, self.nonce, self.session, self.sequence, self.length, self.digest)
        return "\n".join([PROTOCOL, "request", audience, *map(str, parts)]).encode()


class Answer(msgspec.Struct, frozen=True):
    """The signed part of an answer to the request with that nonce."""

    status: int
    key: str
    to: str
    nonce: str
    length: int
    digest: str

    def signed(self) -> bytes:
        parts = (self.status, self.key, self.to, self.nonce, self.length, self.digest)
        return "\n".join([PROTOCOL, "answer", *map(str, parts)]).encode()


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def headers_of(request: Request, audience: str, key: Ed25519PrivateKey) -> dict[str, str]:
    values = msgspec.to_builtins(request)
    del values["target"]
    signature = key.sign(request.signed(audience)).hex()
    return {f"{_PREFIX}{name.capitalize()}": str(value) for name, value in {**values, "signature": signature}.items()}


def request_of(target: str, headers: Mapping[str, str], audience: str) -> Request:
    """What a request says, once its signature is right; Refused otherwise. Whose key it is, is another question."""
    found = {name: headers.get(f"{_PREFIX}{name.capitalize()}", "") for name in _FORMS}
    wrong = [name for name, form in _FORMS.items() if not re.fullmatch(form, found[name])]
    if wrong or not _TARGET.fullmatch(target):
        raise Refused(400, reason("tester-not-a-message", what=wrong[0] if wrong else "path"))
    request = Request(
        target=target,
        key=found["key"],
        time=int(found["time"]),
        nonce=found["nonce"],
        session=found["session"],
        sequence=int(found["sequence"]),
        length=int(found["length"]),
        digest=found["digest"],
    )
    if not right(request.key, found["signature"], request.signed(audience)):
        raise Refused(401, reason("tester-signature-wrong"))
    return request


def answer_headers(answer: Answer, key: Ed25519PrivateKey) -> dict[str, str]:
    return {
        f"{_PREFIX}Nonce": answer.nonce,
        f"{_PREFIX}Digest": answer.digest,
        SIGNATURE: key.sign(answer.signed()).hex(),
    }


def is_answer(request: Request, status: int, signature: str, body: bytes, tester: str) -> bool:
    """Whether `body` is what the tester with that public key answered to this very request."""
    answer = Answer(status, tester, request.key, request.nonce, len(body), digest_of(body))
    return right(tester, signature, answer.signed())


def right(public: str, signature: str, content: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), content)
    except (InvalidSignature, ValueError):
        return False
    return True


class _Heard(msgspec.Struct, frozen=True):
    key: str
    session: str
    sequence: int
    time: int


class Gate:
    """Who is let in: known keys, clocks that agree, and no message twice, also after the tester was started again."""

    def __init__(self, file: Path, known: Iterable[str], clock: Callable[[], float]) -> None:
        self._file, self._known, self._clock = file, frozenset(known), clock
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], _Heard] = {}
        self._lines = self._most_lines = 0
        for line in file.read_bytes().splitlines() if file.is_file() else ():
            try:
                self._remember(msgspec.json.decode(line, type=_Heard))
            except BROKEN:
                continue  # the last line of a tester that was killed
        self._forget()

    def admit(self, request: Request) -> None:
        """Refused, or written down: from now on this message is an old one."""
        if request.sender not in self._known:
            raise Refused(403, reason("tester-key-unknown", key=request.sender[:16]))
        off = request.time - self._clock()
        if abs(off) > WINDOW:
            raise Refused(401, reason("tester-clock", seconds=round(off), most=WINDOW))
        with self._lock:
            last = self._last.get((request.key, request.session))
            if last is not None and request.sequence <= last.sequence:
                raise Refused(409, reason("tester-replayed"))
            # The latest moment that any message of the session has: a clock may have been set back.
            moment = request.time if last is None else max(last.time, request.time)
            heard = _Heard(request.key, request.session, request.sequence, moment)
            if self._lines >= self._most_lines:
                self._forget()
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                write_all(handle, _line(heard))
                os.fsync(handle)
            except OSError:
                self._most_lines = 0  # half a line may be there: the next message begins with a new file
                raise
            finally:
                os.close(handle)
            self._remember(heard)
            self._lines += 1

    def _remember(self, heard: _Heard) -> None:
        self._last[heard.key, heard.session] = heard

    def _forget(self) -> None:
        """Sessions whose every message is too old by now to be let in again. The others get a line each in the file."""
        oldest = self._clock() - 2 * WINDOW
        kept = {name: one for name, one in self._last.items() if one.time >= oldest}
        write_whole(self._file, b"".join(map(_line, kept.values())), durable=True, mode=0o600)
        self._last, self._lines, self._most_lines = kept, len(kept), max(_LEAST_LINES, 2 * len(kept))


def _line(heard: _Heard) -> bytes:
    return msgspec.json.encode(heard) + b"\n"
