"""The subject's end of the line: signs requests, and believes only answers that its tester signed for them."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from trainmark.agent.digests import of_file
from trainmark.errors import SiteError, UserError
from trainmark.i18n.speaker import say
from trainmark.reasons import as_reason
from trainmark.tester.messages import SIGNATURE, Request, digest_of, headers_of, is_answer
from trainmark.trust import keys

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_CALL_SECONDS = 60.0
# The status of an answer that tells of the tester's own trouble.
_UNABLE = 503
# A verdict tells of every case.
_MOST_ANSWER = 64 << 20


class Away(SiteError):
    """No answer, or none that the tester signed."""


class RefusedByTester(UserError):
    """The tester answered, and says no."""


class Link:
    """One session with a tester. May be used from several threads."""

    def __init__(self, url: str, tester: str, key: Ed25519PrivateKey, ca: str | None = None) -> None:
        """`tester`: its public key. `ca`: a file that vouches for its certificate, if this machine does not."""
        address = urlsplit(url)
        try:
            port = address.port
        except ValueError:
            port = -1
        if address.scheme not in ("http", "https") or not address.hostname or port == -1 or address.path.strip("/"):
            raise UserError(f"--tester {url}: allowed is http://HOST:PORT or https://HOST:PORT")
        self.url, self.tester, self._key = url, tester, key
        self._host, self._port = address.hostname, port
        self._tls = _context(ca) if address.scheme == "https" else None
        self._public = keys.raw(key.public_key()).hex()
        self._audience = keys.fingerprint(bytes.fromhex(tester))
        self._session, self._sequence, self._lock = os.urandom(16).hex(), 0, threading.Lock()

    def ask(self, target: str, value: Any) -> Any:
        """Away or RefusedByTester when there is no answer to it."""
        body = msgspec.json.encode(value)
        return self._sent(target, len(body), digest_of(body), body)

    def upload(self, target: str, file: Path) -> Any:
        digest = of_file(str(file))
        with file.open("rb") as content:
            return self._sent(target, file.stat().st_size, digest, content)

    def _sent(self, target: str, length: int, digest: str, body: bytes | IO[bytes]) -> Any:
        # Numbers must arrive in their order.
        with self._lock:
            self._sequence += 1
            moment, nonce = int(time.time()), os.urandom(16).hex()
            request = Request(target, self._public, moment, nonce, self._session, self._sequence, length, digest)
            status, answer = self._answered(request, body)
        found = msgspec.json.decode(answer)
        if status == 200:
            return found
        if status == _UNABLE:
            raise Away(f"--tester {self.url}: the tester has trouble of its own; try again later, or tell the tester")
        why = as_reason(found.get("refused")) if isinstance(found, dict) else None
        raise RefusedByTester(f"--tester {self.url}: the tester refuses: {say(why)}")

    def _answered(self, request: Request, body: bytes | IO[bytes]) -> tuple[int, bytes]:
        headers = {
            **headers_of(request, self._audience, self._key),
            "Content-Length": str(request.length),
            "Content-Type": "application/json" if isinstance(body, bytes) else "application/octet-stream",
        }
        connection = self._connection()
        try:
            connection.request("POST", request.target, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read(_MOST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Away(f"--tester {self.url}: no answer ({said}); check the address and the network") from None
        finally:
            connection.close()
        if not is_answer(request, answer.status, answer.headers.get(SIGNATURE, ""), content, self.tester):
            raise Away(f"--tester {self.url}: who answers there is not the tester that `--tester-key` names")
        return answer.status, content

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=_CALL_SECONDS)
        return http.client.HTTPSConnection(self._host, self._port, timeout=_CALL_SECONDS, context=self._tls)


def _context(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"--tester-ca {ca}: not a file of certificates: {error}") from None
