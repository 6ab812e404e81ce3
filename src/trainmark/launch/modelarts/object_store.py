"""OBS through its official client: objects as bytes and files, failures as CallFailed, repeated while they pass."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from trainmark import extras
from trainmark.launch.modelarts import credentials
from trainmark.launch.modelarts.calls import Caller, CallFailed
from trainmark.launch.modelarts.options import ModelArtsOptions, endpoint
from trainmark.launch.modelarts.tunnel import Tunnel

_PAGE = 1000


class Listed(msgspec.Struct, frozen=True):
    """An object as a listing shows it. The tag is the MD5 of content that was put in one piece."""

    key: str
    size: int
    tag: str


class ObjectStore:
    def __init__(self, options: ModelArtsOptions, caller: Caller, tunnel: Tunnel | None = None) -> None:
        self._options, self._call, self._tunnel = options, caller, tunnel
        self._made: Any = None

    @property
    def _client(self) -> Any:
        if self._made is None:
            obs = extras.load("obs", "launcher `modelarts`")
            keys = credentials.load(self._options.credentials)
            proxy = {} if self._tunnel is None else {"proxy_host": self._tunnel.host, "proxy_port": self._tunnel.port}
            address = endpoint(self._options, "obs")
            self._made = obs.ObsClient(
                access_key_id=keys.access_key,
                secret_access_key=keys.secret_key,
                security_token=keys.token,
                server=address,
                region=self._options.region,
                signature="obs",
                is_signature_negotiation=False,
                ssl_verify=address.startswith("https:"),  # the client's own default trusts everybody
                max_retry_count=0,
                timeout=self._options.call_seconds,
                **proxy,
            )
        return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None

    # ---- calls

    def check_bucket(self, bucket: str) -> None:
        # An answer to HEAD has no words: a listing tells why not.
        self._ask(f"bucket {bucket}", lambda client: client.listObjects(bucket, max_keys=1))

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self._ask(f"obs://{bucket}/{key}", lambda client: client.putContent(bucket, key, content=data))

    def put_file(self, bucket: str, key: str, path: Path) -> None:
        self._ask(f"obs://{bucket}/{key}", lambda client: client.putFile(bucket, key, str(path)))

    def copy(self, bucket: str, source: str, key: str) -> None:
        self._ask(f"obs://{bucket}/{key}", lambda client: client.copyObject(bucket, source, bucket, key))

    def get(self, bucket: str, key: str, at: int = 0) -> bytes:
        """From byte `at` on; nothing when there is no more."""
        obs = extras.load("obs", "launcher `modelarts`")
        headers = obs.GetObjectHeader(range=f"{at}-") if at else None

        def read(client: Any) -> Any:
            return client.getObject(bucket, key, loadStreamInMemory=True, headers=headers)

        try:
            answer = self._ask(f"obs://{bucket}/{key}", read)
        except CallFailed as error:
            if at and error.status == 416:
                return b""
            raise
        return bytes(answer.body.buffer or b"")

    def below(self, bucket: str, prefix: str) -> Iterator[Listed]:
        marker: str | None = None
        while True:
            page = self._page(bucket, prefix, marker)
            for one in page.contents:
                yield Listed(one.key, int(one.size), str(one.etag or "").strip('"'))
            if not page.is_truncated:
                return
            marker = page.next_marker or page.contents[-1].key

    def _page(self, bucket: str, prefix: str, marker: str | None) -> Any:
        def read(client: Any) -> Any:
            return client.listObjects(bucket, prefix=prefix, marker=marker, max_keys=_PAGE)

        return self._ask(f"obs://{bucket}/{prefix}", read).body

    def delete(self, bucket: str, keys: list[str]) -> None:
        for key in keys:
            self._delete(bucket, key)

    def _delete(self, bucket: str, key: str) -> None:
        self._ask(f"obs://{bucket}/{key}", lambda client: client.deleteObject(bucket, key))

    def _ask(self, what: str, call: Callable[[Any], Any]) -> Any:
        return self._call(lambda: self._once(what, call))

    def _once(self, what: str, call: Callable[[Any], Any]) -> Any:
        try:
            answer = call(self._client)
        except (OSError, http.client.HTTPException) as error:
            raise CallFailed(what, 0, "", str(error) or type(error).__name__) from None
        if answer.status is None or answer.status >= 300:
            raise CallFailed(what, int(answer.status or 0), answer.errorCode or "", answer.errorMessage or "")
        return answer
